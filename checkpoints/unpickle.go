package checkpoints

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"assay/onnx"
)

// The values of a pickle: nil, bool, int64, float64, string, and these.
type (
	pickledLong  []byte // little-endian, two's complement: an integer of more than 8 bytes
	pickledList  struct{ items []any }
	pickledTuple struct{ items []any }
	pickledDict  struct{ keys, values []any }
	global       string // "module name" of a class or function
	mark         struct{}
	storageRef   struct {
		key   string
		dtype onnx.DType
		count int64
	}
)

func (d *pickledDict) get(key string) any {
	for i := len(d.keys) - 1; i >= 0; i-- {
		if d.keys[i] == key {
			return d.values[i]
		}
	}
	return nil
}

// kindOf describes a value for messages.
func kindOf(v any) string {
	switch v.(type) {
	case *pickledTensor:
		return "a tensor"
	case *pickledDict:
		return "a dictionary"
	case *pickledList, *pickledTuple:
		return "a list"
	case string:
		return "a string"
	case nil:
		return "nothing"
	}
	return "a number"
}

// byteReader is the source of a pickle.
type byteReader interface {
	io.Reader
	io.ByteReader
}

// unpickler is the pickle virtual machine: a stack and a memo.
type unpickler struct {
	r     byteReader
	stack []any
	memo  map[uint32]any
}

// maxText is the maximum length of strings and integers in a pickle: names of tensors are short.
const maxText = 1 << 20

// unpickle runs one pickle of protocol 2 to 5.
func unpickle(r byteReader) (any, error) {
	u := &unpickler{r: r, memo: map[uint32]any{}}
	for {
		op, err := r.ReadByte()
		if err != nil {
			return nil, fmt.Errorf("the pickle is truncated: %w", err)
		}
		if op == '.' {
			return u.pop()
		}
		if err := u.run(op); err != nil {
			return nil, err
		}
	}
}

func (u *unpickler) push(v any) { u.stack = append(u.stack, v) }

var errStack = errors.New("the pickle is damaged: missing or invalid arguments")

func (u *unpickler) pop() (any, error) {
	if len(u.stack) == 0 {
		return nil, errStack
	}
	v := u.stack[len(u.stack)-1]
	u.stack = u.stack[:len(u.stack)-1]
	return v, nil
}

func (u *unpickler) top() (any, error) {
	if len(u.stack) == 0 {
		return nil, errStack
	}
	return u.stack[len(u.stack)-1], nil
}

// popMark pops everything above the last mark.
func (u *unpickler) popMark() ([]any, error) {
	for i := len(u.stack) - 1; i >= 0; i-- {
		if _, ok := u.stack[i].(mark); ok {
			items := append([]any{}, u.stack[i+1:]...)
			u.stack = u.stack[:i]
			return items, nil
		}
	}
	return nil, errStack
}

// popN pops n values.
func (u *unpickler) popN(n int) ([]any, error) {
	if len(u.stack) < n {
		return nil, errStack
	}
	items := append([]any{}, u.stack[len(u.stack)-n:]...)
	u.stack = u.stack[:len(u.stack)-n]
	return items, nil
}

// uint reads an unsigned integer of n bytes.
func (u *unpickler) uint(n int) (uint64, error) {
	var raw [8]byte
	_, err := io.ReadFull(u.r, raw[:n])
	return binary.LittleEndian.Uint64(raw[:]), err
}

// bytes reads a length of n bytes, and that many bytes.
func (u *unpickler) bytes(n int) ([]byte, error) {
	length, err := u.uint(n)
	if err == nil && length > maxText {
		err = fmt.Errorf("a string of %d bytes", length)
	}
	if err != nil {
		return nil, err
	}
	raw := make([]byte, length)
	_, err = io.ReadFull(u.r, raw)
	return raw, err
}

// line reads to the end of the line.
func (u *unpickler) line() (string, error) {
	var b strings.Builder
	for b.Len() < maxText {
		c, err := u.r.ReadByte()
		if err != nil || c == '\n' {
			return b.String(), err
		}
		b.WriteByte(c)
	}
	return "", errors.New("a line is too long")
}

// run executes one instruction.
func (u *unpickler) run(op byte) error {
	v, isValue, err := u.literal(op)
	if err != nil {
		return fmt.Errorf("the pickle is damaged: %w", err)
	}
	if isValue {
		u.push(v)
		return nil
	}
	switch op {
	case 0x80: // PROTO
		_, err = u.uint(1)
		return err
	case 0x95: // FRAME
		_, err = u.uint(8)
		return err
	case 'q', 'r', 0x94: // BINPUT, LONG_BINPUT, MEMOIZE
		return u.remember(op)
	case 'h', 'j': // BINGET, LONG_BINGET
		return u.recall(op)
	case '0': // POP
		_, err = u.pop()
		return err
	case 's', 'u', 'a', 'e': // SETITEM, SETITEMS, APPEND, APPENDS
		return u.fill(op)
	case 't', 0x85, 0x86, 0x87: // TUPLE, TUPLE1, TUPLE2, TUPLE3
		var items []any
		if op == 't' {
			items, err = u.popMark()
		} else {
			items, err = u.popN(int(op-0x85) + 1)
		}
		u.push(&pickledTuple{items})
		return err
	case 'c', 0x93: // GLOBAL, STACK_GLOBAL
		return u.global(op)
	case 'Q': // BINPERSID
		return u.storage()
	case 'R', 0x81: // REDUCE, NEWOBJ
		return u.call()
	case 'b': // BUILD: attributes of a dictionary, which are ignored
		if _, err := u.pop(); err != nil {
			return err
		}
		if v, err := u.top(); err != nil {
			return err
		} else if _, ok := v.(*pickledDict); !ok {
			return fmt.Errorf("the pickle sets the attributes of %s", kindOf(v))
		}
		return nil
	}
	return fmt.Errorf("the pickle has the instruction %#02x, which no state dict needs", op)
}

// literal reads an instruction that pushes a value.
func (u *unpickler) literal(op byte) (v any, is bool, err error) {
	var n uint64
	var raw []byte
	switch op {
	case '(':
		v = mark{}
	case 'N':
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		v = op == 0x88
	case '}': // EMPTY_DICT
		v = &pickledDict{}
	case ']':
		v = &pickledList{}
	case ')':
		v = &pickledTuple{}
	case 'J': // BININT
		n, err = u.uint(4)
		v = int64(int32(n))
	case 'K', 'M': // BININT1, BININT2
		n, err = u.uint(map[byte]int{'K': 1, 'M': 2}[op])
		v = int64(n)
	case 0x8a, 0x8b: // LONG1, LONG4
		raw, err = u.bytes(map[byte]int{0x8a: 1, 0x8b: 4}[op])
		v = integer(raw)
	case 'G': // BINFLOAT
		var b [8]byte
		_, err = io.ReadFull(u.r, b[:])
		v = math.Float64frombits(binary.BigEndian.Uint64(b[:]))
	case 'X', 0x8c, 'T', 'U': // BINUNICODE, SHORT_BINUNICODE, BINSTRING, SHORT_BINSTRING
		raw, err = u.bytes(map[byte]int{'X': 4, 0x8c: 1, 'T': 4, 'U': 1}[op])
		v = string(raw)
	default:
		return nil, false, nil
	}
	return v, true, err
}

// integer decodes a little-endian two's complement integer.
func integer(raw []byte) any {
	if len(raw) > 8 {
		return pickledLong(raw)
	}
	var full [8]byte
	if n := copy(full[:], raw); n > 0 && raw[n-1] >= 0x80 {
		for i := n; i < 8; i++ {
			full[i] = 0xff
		}
	}
	return int64(binary.LittleEndian.Uint64(full[:]))
}

func (u *unpickler) remember(op byte) error {
	id, err := uint64(len(u.memo)), error(nil)
	if op != 0x94 {
		id, err = u.uint(map[byte]int{'q': 1, 'r': 4}[op])
	}
	v, missing := u.top()
	u.memo[uint32(id)] = v
	return errors.Join(err, missing)
}

func (u *unpickler) recall(op byte) error {
	id, err := u.uint(map[byte]int{'h': 1, 'j': 4}[op])
	v, ok := u.memo[uint32(id)]
	if !ok && err == nil {
		err = errStack
	}
	u.push(v)
	return err
}

// fill adds items to the list, or pairs to the dictionary, below them.
func (u *unpickler) fill(op byte) (err error) {
	var items []any
	switch op {
	case 's':
		items, err = u.popN(2)
	case 'a':
		items, err = u.popN(1)
	default:
		items, err = u.popMark()
	}
	if err != nil {
		return err
	}
	to, err := u.top()
	if err != nil {
		return err
	}
	list, isList := to.(*pickledList)
	dict, isDict := to.(*pickledDict)
	switch {
	case isList && (op == 'a' || op == 'e'):
		list.items = append(list.items, items...)
	case isDict && (op == 's' || op == 'u') && len(items)%2 == 0:
		for i := 0; i < len(items); i += 2 {
			dict.keys, dict.values = append(dict.keys, items[i]), append(dict.values, items[i+1])
		}
	default:
		return fmt.Errorf("the pickle adds items to %s", kindOf(to))
	}
	return nil
}

// functions are the functions that a pickle may call.
var functions = map[global]func(args []any) (any, error){
	"collections OrderedDict":         orderedDict,
	"torch._utils _rebuild_tensor_v2": rebuildTensor,
	"torch._utils _rebuild_tensor":    rebuildTensor,
	"torch._utils _rebuild_parameter": rebuildParameter,
	"torch Size": func(args []any) (any, error) {
		if len(args) != 1 {
			return nil, errStack
		}
		return args[0], nil
	},
}

// global reads the name of a class or function. Names that state dicts do not need are refused at once.
func (u *unpickler) global(op byte) error {
	var parts [2]string
	for i := range parts {
		if op == 'c' {
			var err error
			if parts[i], err = u.line(); err != nil {
				return fmt.Errorf("the pickle is damaged: %w", err)
			}
			continue
		}
		v, err := u.pop()
		text, ok := v.(string)
		if err != nil || !ok {
			return errStack
		}
		parts[1-i] = text
	}
	name := global(parts[0] + " " + parts[1])
	if _, ok := storageTypes[string(name)]; !ok && functions[name] == nil {
		return fmt.Errorf("the pickle tries to call %q of Python's module %q: only a state dict of tensors is read, and "+
			"no code is run", parts[1], parts[0])
	}
	u.push(name)
	return nil
}

// storage pushes the reference to a storage, given as ("storage", class, key, original device, number of elements).
func (u *unpickler) storage() error {
	v, err := u.pop()
	if err != nil {
		return err
	}
	t, ok := v.(*pickledTuple)
	if !ok || len(t.items) < 5 || t.items[0] != "storage" {
		return errors.New("the pickle refers to something that is not a storage")
	}
	kind, isGlobal := t.items[1].(global)
	dtype, known := storageTypes[string(kind)]
	key, isText := t.items[2].(string)
	count, isNumber := t.items[4].(int64)
	if !isGlobal || !known || !isText || !isNumber || len(t.items) > 5 && t.items[5] != nil {
		return errors.New("the pickle refers to a storage without type, key or size, or to a part of one")
	}
	u.push(&storageRef{key, dtype, count})
	return nil
}

// call calls one of the functions.
func (u *unpickler) call() error {
	both, err := u.popN(2)
	if err != nil {
		return err
	}
	name, isGlobal := both[0].(global)
	args, isTuple := both[1].(*pickledTuple)
	f := functions[name]
	if !isGlobal || !isTuple || f == nil {
		return errors.New("the pickle calls something that is not a function")
	}
	v, err := f(args.items)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	u.push(v)
	return nil
}

// orderedDict is OrderedDict(), or OrderedDict([[key, value], ...]).
func orderedDict(args []any) (any, error) {
	d := &pickledDict{}
	if len(args) == 0 {
		return d, nil
	}
	list, ok := args[0].(*pickledList)
	if !ok {
		return nil, errStack
	}
	for _, item := range list.items {
		var pair []any
		switch p := item.(type) {
		case *pickledList:
			pair = p.items
		case *pickledTuple:
			pair = p.items
		}
		if len(pair) != 2 {
			return nil, errStack
		}
		d.keys, d.values = append(d.keys, pair[0]), append(d.values, pair[1])
	}
	return d, nil
}

// rebuildTensor returns a view of a storage. Its arguments are storage, offset, shape, strides, two for training, and
// as the seventh whether the elements are negated or conjugated, which is not the case in released files.
func rebuildTensor(args []any) (any, error) {
	if len(args) < 4 {
		return nil, errStack
	}
	if len(args) > 6 && args[6] != nil {
		if d, ok := args[6].(*pickledDict); !ok || len(d.keys) > 0 {
			return nil, errors.New("the tensor is a lazily negated or conjugated view: save its clone()")
		}
	}
	s, isStorage := args[0].(*storageRef)
	offset, isNumber := args[1].(int64)
	shape, err := integers(args[2])
	stride, wrong := integers(args[3])
	if !isStorage || !isNumber || err != nil || wrong != nil {
		return nil, errStack
	}
	return &pickledTensor{s.key, s.dtype, s.count, offset, shape, stride}, nil
}

func rebuildParameter(args []any) (any, error) {
	if len(args) == 0 {
		return nil, errStack
	}
	if _, ok := args[0].(*pickledTensor); !ok {
		return nil, errStack
	}
	return args[0], nil
}

func integers(v any) ([]int64, error) {
	t, ok := v.(*pickledTuple)
	if !ok {
		return nil, errStack
	}
	out := make([]int64, len(t.items))
	for i, item := range t.items {
		if out[i], ok = item.(int64); !ok {
			return nil, errStack
		}
	}
	return out, nil
}
