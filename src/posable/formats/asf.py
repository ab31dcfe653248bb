from posable.formats.format import Format
FORMAT = Format('asf', ('.asf',), '', '')
