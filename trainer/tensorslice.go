package trainer

import (
	"fmt"
	"slices"

	"assay/checkpoints"
	"assay/onnx"
)

// tensorSlice is a part of a tensor of a checkpoint that lies here: consecutive elements, all of them where one process
// trains.
type tensorSlice struct {
	Name   string // in the checkpoint
	Shape  []int  // of the whole tensor
	Packed bool   // its elements are bytes, not float32
	First  int    // number of the first element
	Length int    // in elements

	values []float32
	bytes  []byte // of one that is packed
}

// putter takes the contents of a tensorSlice.
type putter func(s *tensorSlice, data []byte) error

// info describes the whole tensor.
func (s *tensorSlice) info() checkpoints.TensorInfo {
	info := checkpoints.TensorInfo{Name: s.Name, Type: onnx.Float, Shape: []int64{}}
	if s.Packed {
		info.Type = onnx.Uint8
	}
	for _, d := range s.Shape {
		info.Shape = append(info.Shape, int64(d))
	}
	return info
}

// size is that of n elements in bytes.
func (s *tensorSlice) size(n int) int {
	if s.Packed {
		return n
	}
	return 4 * n
}

// contents are the tensorSlice as a checkpoint has it.
func (s *tensorSlice) contents(b []byte) []byte {
	if s.Packed {
		return append(b, s.bytes...)
	}
	b, _ = checkpoints.AppendFloat32s(b, onnx.Float, s.values) // that is a floating-point type
	return b
}

// cut gives the tensorSlice in parts of at most n elements.
func (s *tensorSlice) cut(n int) (out []tensorSlice) {
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

// read fills the tensorSlice with what a file has.
func (s *tensorSlice) read(f *checkpoints.SafetensorsFile) error {
	data, err := f.Bytes(s.Name)
	if err != nil {
		return fmt.Errorf("the checkpoint is of another model or optimizer: %w", err)
	}
	has, _ := f.Info(s.Name)
	if want := s.info(); !slices.Equal(has.Shape, want.Shape) || has.Type != want.Type {
		return fmt.Errorf("%s: %s has shape %v, the model's %v", f.Path(), s.Name, has.Shape, want.Shape)
	}
	data = data[s.size(s.First):s.size(s.First+s.Length)]
	if s.Packed {
		copy(s.bytes, data)
		return nil
	}
	for at := 0; at < s.Length; at += packet { // a copy of little at a time
		end := min(at+packet, s.Length)
		part, err := checkpoints.Float32s(has.Type, data[4*at:4*end])
		if err != nil {
			return err
		}
		copy(s.values[at:end], part)
	}
	return nil
}

// packet bounds the elements of a tensorSlice that are copied at a time.
const packet = 1 << 20

// tensors lists the tensors of a checkpoint as far as they lie here; of the optimizer's state that may be a part.
func (o *optimizer) tensors() []tensorSlice {
	var out []tensorSlice
	for _, p := range o.params {
		out = append(out, tensorSlice{Name: "parameter/" + p.Name, Shape: p.Value.Shape(), Length: len(p.Floats()),
			values: p.Floats()})
	}
	for _, s := range o.groups.State() {
		out = append(out, tensorSlice{
			Name:   s.Kind + "/" + o.owned[s.Param].Name,
			Shape:  s.Shape,
			Packed: s.Bytes != nil,
			First:  s.First,
			Length: len(s.Values) + len(s.Bytes),
			values: s.Values,
			bytes:  s.Bytes,
		})
	}
	return out
}

// putAll gives the contents of slices that all lie here.
func putAll(kept []tensorSlice, put putter) error {
	var buffer []byte
	for i := range kept {
		for _, part := range kept[i].cut(packet) {
			buffer = part.contents(buffer[:0])
			if err := put(&part, buffer); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeTensors writes a file of the tensors that slices are of, with the contents that each gives.
func writeTensors(path string, kept []tensorSlice, each func(put putter) error) error {
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
	err = each(func(s *tensorSlice, data []byte) error { return w.WriteAt(s.Name, data, int64(s.size(s.First))) })
	if err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}

// packets puts slices into packets of about the same size, of at most so many elements.
func packets(kept []tensorSlice, most int) [][]tensorSlice {
	out, room := [][]tensorSlice(nil), 0
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
