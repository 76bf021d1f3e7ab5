"""The grammar of objects: schemas, field paths, selectors, patches, apply, errors, kinds. No I/O.

Objects are plain ``dict`` trees as JSON decodes them. Whoever decodes an object owns it and may change it in place;
an object that came out of a cache or a store is bytes, so nothing shared can be changed by accident.
"""
