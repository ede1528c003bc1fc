package data

import (
	"encoding/binary"
	"errors"
)

var errThrift = errors.New("its metadata is damaged")

// checkThrift walks over a struct in Thrift's compact protocol, in which Parquet's metadata are written, and checks
// that each list and text has as many bytes as it says. The Parquet library takes memory for what a list announces
// first.
func checkThrift(b []byte) error {
	_, err := skipThrift(b, 12, 0)
	return err
}

// skipThrift returns what follows a value of that kind: 1, 2 booleans (a byte each in lists, none as fields), 3 a byte,
// 4-6 integers, 7 a double, 8 bytes, 9 a list, 10 a set, 11 a map, 12 a struct.
func skipThrift(b []byte, kind byte, depth int) ([]byte, error) {
	if depth > 32 {
		return nil, errThrift
	}
	switch kind {
	case 1, 2, 3:
		return skipBytes(b, 1)
	case 4, 5, 6:
		_, b, err := thriftLength(b, false)
		return b, err
	case 7:
		return skipBytes(b, 8)
	case 8:
		n, b, err := thriftLength(b, true)
		if err != nil {
			return nil, err
		}
		return skipBytes(b, n)
	case 9, 10:
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
	case 11:
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
	case 12:
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
			if kind := field & 15; kind > 2 {
				if b, err = skipThrift(b, kind, depth+1); err != nil {
					return nil, err
				}
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

// thriftLength reads a varint; as a length, it is at most what is left.
func thriftLength(b []byte, length bool) (int, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || length && v > uint64(len(b)-n) {
		return 0, nil, errThrift
	}
	return int(v), b[n:], nil
}
