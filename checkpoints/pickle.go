package checkpoints

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"assay/onnx"
)

// TensorFile is a file of named tensors: [SafetensorsFile] or [PickleFile].
type TensorFile interface {
	Names() []string
	Info(name string) (TensorInfo, bool)
	// Bytes returns the tensor's bytes, little-endian and row-major, which must not be modified.
	Bytes(name string) ([]byte, error)
	Close() error
}

// OpenTensors opens a .safetensors file, or a state dict saved by torch.save (.pth, .pt, .bin, .ckpt).
func OpenTensors(file string) (TensorFile, error) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".safetensors":
		return OpenFile(file)
	case ".pth", ".pt", ".bin", ".ckpt":
		return OpenPickle(file)
	}
	return nil, fmt.Errorf("%s: want .safetensors, or .pth, .pt, .bin or .ckpt as written by torch.save", file)
}

// PickleFile is a state dict written by torch.save, in its zip format or the format before PyTorch 1.6. A pickle is a
// program; here it may only build dictionaries, lists, tuples, numbers, strings and tensors, and no Python code is
// run. The tensors' bytes stay in the file until they are read.
type PickleFile struct {
	path     string
	file     *os.File
	names    []string
	tensors  map[string]*pickledTensor
	storages map[string]storage
}

// storage is the position of the elements of tensors in the file.
type storage struct {
	offset, length int64 // bytes
}

// pickledTensor is a view of a storage.
type pickledTensor struct {
	key    string // of the storage
	dtype  onnx.DType
	count  int64 // elements of the storage
	offset int64 // elements
	shape  []int64
	stride []int64
}

// beyond reports whether a stride leaves the storage.
func (t *pickledTensor) beyond(stride int64) bool { return stride < 0 || stride > max(t.count, 1) }

// storageTypes are torch's storage classes.
var storageTypes = map[string]onnx.DType{
	"torch FloatStorage": onnx.Float, "torch HalfStorage": onnx.Float16, "torch BFloat16Storage": onnx.BFloat16,
	"torch DoubleStorage": onnx.Double, "torch LongStorage": onnx.Int64, "torch IntStorage": onnx.Int32,
	"torch ShortStorage": onnx.Int16, "torch CharStorage": onnx.Int8, "torch ByteStorage": onnx.Uint8,
	"torch BoolStorage": onnx.Bool,
}

// OpenPickle reads the pickle in a torch.save file: a state dict, or a dictionary with a state dict under state_dict
// or model.
func OpenPickle(file string) (*PickleFile, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	p := &PickleFile{path: file, file: f, tensors: map[string]*pickledTensor{}, storages: map[string]storage{}}
	if err := p.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", file, err), f.Close())
	}
	return p, nil
}

func (p *PickleFile) read() error {
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	var front [4]byte
	if _, err := p.file.ReadAt(front[:], 0); err != nil {
		return fmt.Errorf("not a torch.save file: %w", err)
	}
	var root any
	if string(front[:]) == "PK\x03\x04" {
		root, err = p.readZip(info.Size())
	} else {
		root, err = p.readLegacy(info.Size())
	}
	if err != nil {
		return err
	}
	return p.addAll(root)
}

// readZip reads data.pkl in an archive. Its other files are the storages, which torch.save does not compress.
func (p *PickleFile) readZip(size int64) (root any, err error) {
	archive, err := zip.NewReader(p.file, size)
	if err != nil {
		return nil, err
	}
	for _, f := range archive.File {
		if f.Method != zip.Store {
			return nil, fmt.Errorf("%s in it is compressed: torch.save does not compress", f.Name)
		}
		at, err := f.DataOffset()
		length := int64(f.UncompressedSize64)
		if err != nil || length < 0 || length > size-at {
			return nil, fmt.Errorf("the file is damaged: %s is outside it", f.Name)
		}
		switch folder, name := path.Split(f.Name); {
		case name == "data.pkl" && root == nil:
			if root, err = unpickle(bufio.NewReader(io.NewSectionReader(p.file, at, length))); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
		case name == "byteorder":
			order := make([]byte, min(length, 16))
			if _, err := p.file.ReadAt(order, at); err != nil || string(order) != "little" {
				return nil, fmt.Errorf("byte order %q is not supported: want little", order)
			}
		case path.Base(folder) == "data":
			p.storages[name] = storage{at, length}
		}
	}
	if root == nil {
		return nil, errors.New("not a torch.save file: no data.pkl in it")
	}
	return root, nil
}

// Before PyTorch 1.6 a file was a sequence of pickles: this magic number, the protocol, system information, the
// object, and the keys of the storages. Then follow the storages: the number of elements, 8 bytes, and the elements.
var legacyMagic = []byte{0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19}

func (p *PickleFile) readLegacy(size int64) (root any, err error) {
	counted := &countedReader{r: bufio.NewReader(io.NewSectionReader(p.file, 0, size))}
	var parts [5]any
	for i := range parts {
		if parts[i], err = unpickle(counted); err != nil {
			return nil, err
		}
		if magic, ok := parts[0].(pickledLong); !ok || string(magic) != string(legacyMagic) {
			return nil, errors.New("not a torch.save file")
		}
	}
	keys, ok := parts[4].(*pickledList)
	if !ok {
		return nil, errors.New("the file is damaged: the keys of the storages are missing")
	}
	sizes := map[string]int64{} // bytes of an element
	eachTensor(parts[3], 4, func(t *pickledTensor) { sizes[t.key] = int64(t.dtype.Size()) })
	at := counted.n
	for _, k := range keys.items {
		key, _ := k.(string)
		var raw [8]byte
		if _, err := p.file.ReadAt(raw[:], at); err != nil {
			return nil, fmt.Errorf("the file is truncated: %w", err)
		}
		count := binary.LittleEndian.Uint64(raw[:])
		if sizes[key] == 0 || count > uint64(size)/uint64(sizes[key]) {
			return nil, fmt.Errorf("the file is damaged: the storage %q is outside it", key)
		}
		p.storages[key] = storage{at + 8, int64(count) * sizes[key]}
		if at += 8 + int64(count)*sizes[key]; at > size {
			return nil, fmt.Errorf("the file is truncated: the storage %q ends after it", key)
		}
	}
	return parts[3], nil
}

// countedReader counts what was read.
type countedReader struct {
	r *bufio.Reader
	n int64
}

func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

func (c *countedReader) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

// eachTensor calls f for the tensors in nested dictionaries, up to levels deep.
func eachTensor(v any, levels int, f func(*pickledTensor)) {
	switch x := v.(type) {
	case *pickledTensor:
		f(x)
	case *pickledDict:
		for _, item := range x.values {
			if levels > 0 {
				eachTensor(item, levels-1, f)
			}
		}
	}
}

// addAll adds the tensors of a state dict.
func (p *PickleFile) addAll(root any) error {
	d, ok := root.(*pickledDict)
	if !ok {
		return fmt.Errorf("it contains %s: want a state dict", kindOf(root))
	}
	for _, name := range []string{"state_dict", "model"} {
		if inner, ok := d.get(name).(*pickledDict); ok {
			d = inner
			break
		}
	}
	for i, key := range d.keys {
		name, isText := key.(string)
		t, isTensor := d.values[i].(*pickledTensor)
		if !isText || !isTensor {
			return fmt.Errorf("%v is %s: want a state dict of tensors", key, kindOf(d.values[i]))
		}
		if err := p.check(t); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if p.tensors[name] == nil {
			p.names = append(p.names, name)
		}
		p.tensors[name] = t
	}
	return nil
}

// check returns an error if a tensor reaches beyond its storage.
func (p *PickleFile) check(t *pickledTensor) error {
	s, ok := p.storages[t.key]
	size := int64(t.dtype.Size())
	if !ok || t.count < 0 || t.count > s.length/size {
		return fmt.Errorf("its storage %q of %d elements is not in the file", t.key, t.count)
	}
	if len(t.shape) != len(t.stride) || t.offset > t.count || slices.ContainsFunc(t.stride, t.beyond) {
		return fmt.Errorf("shape %v and strides %v do not fit a storage of %d elements", t.shape, t.stride, t.count)
	}
	last, elements := t.offset, int64(1)
	for i, n := range t.shape {
		if n < 1 || n > t.count/elements || t.stride[i] > 0 && n-1 > t.count/t.stride[i] {
			return fmt.Errorf("shape %v and strides %v do not fit a storage of %d elements", t.shape, t.stride, t.count)
		}
		elements *= n
		last += (n - 1) * t.stride[i]
	}
	if t.offset < 0 || last < 0 || last >= t.count {
		return fmt.Errorf("shape %v reaches beyond the %d elements of its storage", t.shape, t.count)
	}
	return nil
}

// Names returns the tensors' names in the order of the state dict.
func (p *PickleFile) Names() []string { return p.names }

// Info describes a tensor, without its offset in the file.
func (p *PickleFile) Info(name string) (TensorInfo, bool) {
	t := p.tensors[name]
	if t == nil {
		return TensorInfo{}, false
	}
	length, err := byteLength(t.dtype, t.shape)
	return TensorInfo{Name: name, Type: t.dtype, Shape: append([]int64{}, t.shape...), Length: length}, err == nil
}

// Bytes reads a tensor.
func (p *PickleFile) Bytes(name string) ([]byte, error) {
	info, ok := p.Info(name)
	if !ok {
		return nil, fmt.Errorf("%s: no tensor %q among its %d", p.path, name, len(p.names))
	}
	t := p.tensors[name]
	size := int64(t.dtype.Size())
	reach := int64(1) // elements from the first to the last
	contiguous := true
	for i, step := len(t.shape)-1, int64(1); i >= 0; i-- {
		reach += (t.shape[i] - 1) * t.stride[i]
		contiguous = contiguous && (t.stride[i] == step || t.shape[i] == 1)
		step *= t.shape[i]
	}
	raw := make([]byte, reach*size)
	if _, err := p.file.ReadAt(raw, p.storages[t.key].offset+t.offset*size); err != nil {
		return nil, fmt.Errorf("%s: tensor %q: %w", p.path, name, err)
	}
	if contiguous {
		return raw, nil
	}
	out := make([]byte, 0, info.Length)
	at := make([]int64, len(t.shape))
	for int64(len(out)) < info.Length {
		place := int64(0)
		for i := range at {
			place += at[i] * t.stride[i]
		}
		out = append(out, raw[place*size:(place+1)*size]...)
		for i := len(at) - 1; i >= 0; i-- {
			if at[i]++; at[i] < t.shape[i] {
				break
			}
			at[i] = 0
		}
	}
	return out, nil
}

// Close closes the file.
func (p *PickleFile) Close() error { return p.file.Close() }
