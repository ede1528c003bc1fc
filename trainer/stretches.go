package trainer

import (
	"fmt"
	"slices"

	"assay/checkpoints"
	"assay/onnx"
)

// stretch is a part of a tensor of a checkpoint that lies here: consecutive elements, all of them where one process
// trains.
type stretch struct {
	Name   string // in the checkpoint
	Shape  []int  // of the whole tensor
	Packed bool   // its elements are bytes, not float32
	First  int    // number of the first element
	Length int    // in elements

	values []float32
	bytes  []byte // of one that is packed
}

// putter takes the contents of a stretch.
type putter func(s *stretch, data []byte) error

// info describes the whole tensor.
func (s *stretch) info() checkpoints.Info {
	info := checkpoints.Info{Name: s.Name, Type: onnx.Float, Shape: []int64{}}
	if s.Packed {
		info.Type = onnx.Uint8
	}
	for _, d := range s.Shape {
		info.Shape = append(info.Shape, int64(d))
	}
	return info
}

// size is that of n elements in bytes.
func (s *stretch) size(n int) int {
	if s.Packed {
		return n
	}
	return 4 * n
}

// contents are the stretch as a checkpoint has it.
func (s *stretch) contents(b []byte) []byte {
	if s.Packed {
		return append(b, s.bytes...)
	}
	b, _ = checkpoints.AppendFloat32s(b, onnx.Float, s.values) // that is a floating-point type
	return b
}

// cut gives the stretch in parts of at most n elements.
func (s *stretch) cut(n int) (out []stretch) {
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

// read fills the stretch with what a file has.
func (s *stretch) read(f *checkpoints.File) error {
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

// packet bounds the elements of a stretch that are copied at a time.
const packet = 1 << 20

// kept lists the tensors of a checkpoint as far as they lie here; of the optimizer's state that may be a part.
func (r *run) kept() []stretch {
	var out []stretch
	for _, p := range r.params {
		out = append(out, stretch{Name: "parameter/" + p.Name, Shape: p.Value.Shape(), Length: len(p.Floats()),
			values: p.Floats()})
	}
	for _, s := range r.optimizer.State() {
		out = append(out, stretch{
			Name:   s.Kind + "/" + r.own.owned[s.Param].Name,
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

// tensors is the number of tensors that a checkpoint has.
func (r *run) tensors() (int, error) {
	kept := r.kept()
	if !r.own.only {
		return len(kept), nil
	}
	var names []string
	for _, s := range kept {
		names = append(names, s.Name)
	}
	all, err := gather(r.ranks, "the optimizer's tensors", names)
	if err != nil {
		return 0, err
	}
	names = slices.Concat(all...)
	slices.Sort(names)
	return len(slices.Compact(names)), nil
}

// putAll gives the contents of stretches that all lie here.
func putAll(kept []stretch, put putter) error {
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

// writeStretches writes a file of the tensors that stretches are of, with the contents that each gives.
func writeStretches(path string, kept []stretch, each func(put putter) error) error {
	var infos []checkpoints.Info
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
	err = each(func(s *stretch, data []byte) error { return w.WriteAt(s.Name, data, int64(s.size(s.First))) })
	if err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}

// saveTogether is save for ranks that have parts of the optimizer's state each: the first one is given them, little at
// a time, and writes them where they belong. Whatever fails there, all ranks come to the end.
func (r *run) saveTogether() error {
	kept := r.kept()
	whole, mine := kept[:len(r.params)], packets(kept[len(r.params):], r.ranks.Size())
	all, err := gather(r.ranks, "the optimizer's state", mine)
	if err != nil {
		return err
	}
	if !r.ranks.first() {
		return r.giveState(mine, all, nil)
	}
	for _, rank := range all {
		kept = append(kept, slices.Concat(rank...)...)
	}
	given := false
	saving := r.saveWith(kept, func(put putter) error {
		given = true
		err := putAll(whole, put)
		if lost := r.giveState(mine, all, put); lost != nil {
			return lost
		}
		return err
	})
	if !given {
		err = r.giveState(mine, all, nil)
	}
	return joinErrors(saving, err)
}

// packets puts stretches into packets of about the same size, of which each of n ranks sends one at a time.
func packets(kept []stretch, n int) [][]stretch {
	most := max(1, exchanged/n)
	out, room := [][]stretch(nil), 0
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

// giveState sends the packets of all ranks, which put takes; without it they are dropped.
func (r *run) giveState(mine [][]stretch, all [][][]stretch, put putter) (err error) {
	rounds := 0
	for _, rank := range all {
		rounds = max(rounds, len(rank))
	}
	var buffer []byte
	for t := range rounds {
		buffer = buffer[:0]
		if t < len(mine) {
			for i := range mine[t] {
				buffer = mine[t][i].contents(buffer)
			}
		}
		given, lost := r.ranks.Gather(fmt.Sprintf("the optimizer's state, %d of %d", t+1, rounds), buffer)
		if lost != nil {
			return fmt.Errorf("%s, saving: %w", r.ranks.name(r.ranks.Rank()), lost)
		}
		for rank, data := range given {
			if err != nil || put == nil || t >= len(all[rank]) {
				continue
			}
			for i := range all[rank][t] {
				s := &all[rank][t][i]
				n := s.size(s.Length)
				if err = put(s, data[:n]); err != nil {
					break
				}
				data = data[n:]
			}
		}
	}
	return err
}
