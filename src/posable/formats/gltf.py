from posable.formats.format import Format
FORMAT = Format('gltf', ('.gltf',), '', '')
