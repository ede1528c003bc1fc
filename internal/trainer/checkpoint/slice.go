package checkpoint

import (
	"fmt"
	"slices"

	"assay/checkpoints"
	"assay/onnx"
)

// Slice is the part of a checkpoint tensor that this process has: consecutive elements, all of them if one process
// trains.
type Slice struct {
	Name   string // in the checkpoint
	Shape  []int  // of the full tensor
	Packed bool   // its elements are bytes, not float32
	First  int    // index of the first element
	Length int    // in elements

	values []float32 // not exported, so that gob sends the description without the elements
	bytes  []byte    // elements of a packed slice
}

// NewSlice returns the elements starting at first of a tensor with a shape: values or, if packed, bytes.
func NewSlice(name string, shape []int, first int, values []float32, bytes []byte) Slice {
	return Slice{name, shape, bytes != nil, first, len(values) + len(bytes), values, bytes}
}

// Putter receives the contents of a slice.
type Putter func(s *Slice, data []byte) error

// WriteFunc writes tensors; each passes their contents to put, in any order.
type WriteFunc func(tensors []Slice, each func(put Putter) error) error

// info describes the full tensor.
func (s *Slice) info() checkpoints.TensorInfo {
	info := checkpoints.TensorInfo{Name: s.Name, Type: onnx.Float, Shape: []int64{}}
	if s.Packed {
		info.Type = onnx.Uint8
	}
	for _, d := range s.Shape {
		info.Shape = append(info.Shape, int64(d))
	}
	return info
}

// Size returns the size of n elements in bytes.
func (s *Slice) Size(n int) int {
	if s.Packed {
		return n
	}
	return 4 * n
}

// Contents appends the bytes of the slice, as stored in a checkpoint, to b.
func (s *Slice) Contents(b []byte) []byte {
	if s.Packed {
		return append(b, s.bytes...)
	}
	b, _ = checkpoints.AppendFloat32s(b, onnx.Float, s.values) // cannot fail for a floating-point type
	return b
}

// cut splits the slice into parts of at most n elements.
func (s *Slice) cut(n int) (out []Slice) {
	for at := 0; at < s.Length; at += n {
		part := *s
		part.First, part.Length = s.First+at, min(n, s.Length-at)
		if s.Packed {
			part.bytes = s.bytes[at : at+part.Length]
		} else {
			part.values = s.values[at : at+part.Length]
		}
		out = append(out, part)
	}
	return out
}

// Read fills the slice from a file.
func (s *Slice) Read(f *checkpoints.SafetensorsFile) error {
	data, err := f.Bytes(s.Name)
	if err != nil {
		return fmt.Errorf("the checkpoint is from a different model or optimizer: %w", err)
	}
	has, _ := f.Info(s.Name)
	if want := s.info(); !slices.Equal(has.Shape, want.Shape) || has.Type != want.Type {
		return fmt.Errorf("%s: %s has shape %v, the model's %v", f.Path(), s.Name, has.Shape, want.Shape)
	}
	data = data[s.Size(s.First):s.Size(s.First+s.Length)]
	if s.Packed {
		copy(s.bytes, data)
		return nil
	}
	for at := 0; at < s.Length; at += packet { // copy a little at a time
		end := min(at+packet, s.Length)
		part, err := checkpoints.Float32s(has.Type, data[4*at:4*end])
		if err != nil {
			return err
		}
		copy(s.values[at:end], part)
	}
	return nil
}

// packet is the maximum number of elements that are copied at a time.
const packet = 1 << 20

// PutAll passes the contents of slices, all of this process, to put.
func PutAll(kept []Slice, put Putter) error {
	var buffer []byte
	for i := range kept {
		for _, part := range kept[i].cut(packet) {
			buffer = part.Contents(buffer[:0])
			if err := put(&part, buffer); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeTensors writes a file with the tensors of the slices, and the contents from each.
func writeTensors(path string, kept []Slice, each func(put Putter) error) error {
	var infos []checkpoints.TensorInfo
	seen := map[string]bool{}
	for i := range kept {
		if s := &kept[i]; !seen[s.Name] {
			seen[s.Name] = true
			infos = append(infos, s.info())
		}
	}
	w, err := checkpoints.NewWriter(path, infos, nil)
	if err != nil {
		return err
	}
	err = each(func(s *Slice, data []byte) error { return w.WriteAt(s.Name, data, int64(s.Size(s.First))) })
	if err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}

// Packets divides slices into packets of about the same size, of at most most elements.
func Packets(kept []Slice, most int) [][]Slice {
	out, room := [][]Slice(nil), 0
	for i := range kept {
		for _, part := range kept[i].cut(most) {
			if room < part.Length {
				out, room = append(out, nil), most
			}
			out[len(out)-1] = append(out[len(out)-1], part)
			room -= part.Length
		}
	}
	return out
}
