package parquet

import (
	"encoding/binary"
	"errors"
)

var errThrift = errors.New("its metadata is damaged")

// checkThrift walks a struct in Thrift's compact protocol, the format of Parquet metadata, and checks that each list
// and string has as many bytes as it claims. The Parquet library allocates what a list claims before reading it.
func checkThrift(b []byte) error {
	_, err := skipThrift(b, thriftStruct, 0)
	return err
}

// Types of Thrift's compact protocol. A boolean field is one of two types, which hold its value; in lists a boolean
// is a byte.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftInt16  = 4
	thriftInt64  = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
)

// skipThrift skips a value of type kind and returns the rest.
func skipThrift(b []byte, kind byte, depth int) ([]byte, error) {
	switch {
	case depth > 32:
	case kind == thriftTrue || kind == thriftFalse || kind == thriftByte:
		return skipBytes(b, 1)
	case kind >= thriftInt16 && kind <= thriftInt64:
		_, b, err := thriftLength(b, false)
		return b, err
	case kind == thriftDouble:
		return skipBytes(b, 8)
	case kind == thriftBinary:
		n, b, err := thriftLength(b, true)
		if err != nil {
			return nil, err
		}
		return skipBytes(b, n)
	case kind == thriftList || kind == thriftSet:
		return skipThriftList(b, depth)
	case kind == thriftMap:
		return skipThriftMap(b, depth)
	case kind == thriftStruct:
		return skipThriftStruct(b, depth)
	}
	return nil, errThrift
}

// skipThriftList skips a length of up to 14 and the type of the elements in one byte, or a longer length after it.
func skipThriftList(b []byte, depth int) ([]byte, error) {
	if len(b) == 0 {
		return nil, errThrift
	}
	n, element := int(b[0]>>4), b[0]&15
	var err error
	if b = b[1:]; n == 15 {
		if n, b, err = thriftLength(b, true); err != nil {
			return nil, err
		}
	}
	for ; n > 0 && err == nil; n-- {
		b, err = skipThrift(b, element, depth+1)
	}
	return b, err
}

// skipThriftMap skips a length, the types of keys and values in one byte, and the keys and values in turn.
func skipThriftMap(b []byte, depth int) ([]byte, error) {
	n, b, err := thriftLength(b, true)
	if err != nil || n == 0 {
		return b, err
	}
	if len(b) == 0 {
		return nil, errThrift
	}
	key, value := b[0]>>4, b[0]&15
	for b = b[1:]; n > 0 && err == nil; n-- {
		if b, err = skipThrift(b, key, depth+1); err == nil {
			b, err = skipThrift(b, value, depth+1)
		}
	}
	return b, err
}

// skipThriftStruct skips fields, each with its type and the delta of its number in one byte, up to a zero byte.
func skipThriftStruct(b []byte, depth int) ([]byte, error) {
	for len(b) > 0 {
		field := b[0]
		if b = b[1:]; field == 0 {
			return b, nil
		}
		var err error
		if field>>4 == 0 { // the field's number follows
			if _, b, err = thriftLength(b, false); err != nil {
				return nil, err
			}
		}
		if kind := field & 15; kind > thriftFalse {
			if b, err = skipThrift(b, kind, depth+1); err != nil {
				return nil, err
			}
		}
	}
	return nil, errThrift
}

func skipBytes(b []byte, n int) ([]byte, error) {
	if n > len(b) {
		return nil, errThrift
	}
	return b[n:], nil
}

// thriftLength reads a varint; if it is a length, it must not exceed the remaining bytes.
func thriftLength(b []byte, length bool) (int, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || length && v > uint64(len(b)-n) {
		return 0, nil, errThrift
	}
	return int(v), b[n:], nil
}
