from posable.formats.format import Format
FORMAT = Format('urdf', ('.urdf',), '', '')
