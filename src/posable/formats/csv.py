from posable.formats.format import Format
FORMAT = Format('csv', ('.csv',), '', '')
