from posable.formats.format import Format
FORMAT = Format('amc', ('.amc',), '', '')
