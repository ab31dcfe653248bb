from posable.formats.format import Format
FORMAT = Format('npz', ('.npz',), '', '')
