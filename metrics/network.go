package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/edit"
	"assay/encoders"
	"assay/heuristics"
	"assay/internal/store"
	"assay/onnx"
	"assay/ort"
)

// network is a metric defined by a YAML file: an ONNX graph, an encoder, or both.
type network struct {
	Config Config

	session *ort.Session // nil: only an encoder
	sizes   *sizes       // of the graph
	encoder *encoders.Model
	places  *Places
}

// openNetwork opens a metric by its YAML file.
func openNetwork(path string, o Options) (*Metric, error) {
	c, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	n := &network{Config: *c, places: o.Places}
	digest, err := store.FileDigest(path)
	parts := []string{"metric-1", digest.String()}
	if err == nil && (c.Prepare.Box || c.Prepare.Points != "") {
		err = errors.New("this metric needs a boxes file")
		if o.Places != nil {
			digest, err = store.FileDigest(o.Places.path)
			parts = append(parts, digest.String())
		}
	}
	m := &Metric{name: c.Name, roles: n.roles(), dimensions: c.Output.Names, value: n.value, close: n.close}
	for _, role := range c.Of {
		if slices.Contains(textRoles, role) {
			m.texts = append(m.texts, textRole(role))
		}
	}
	if err == nil && c.Encoder != "" {
		n.encoder, err = encoders.Open(c.Encoder, encoders.Options{Device: o.Device, Threads: o.Threads})
		if err == nil {
			parts = append(parts, n.encoder.Fingerprint())
			if len(m.texts) > 0 && !n.encoder.HasTexts() {
				err = fmt.Errorf("%s has no text encoder", c.Encoder)
			}
		}
	}
	if err == nil && c.Model != "" {
		var files []string
		files, err = n.openModel(o)
		for _, file := range files {
			if err == nil {
				digest, err = store.FileDigest(file)
				parts = append(parts, digest.String())
			}
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), n.close())
	}
	m.fingerprint = store.KeyOf(parts...).String()
	return m, nil
}

// openModel opens the graph and checks its inputs and outputs. It returns its files: its own, and those of weights
// outside of it.
func (m *network) openModel(o Options) (files []string, err error) {
	g, err := onnx.Read(m.Config.Model)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(m.Config.Model))
	if err == nil {
		folder, err = filepath.EvalSymlinks(folder)
	}
	if err == nil {
		m.sizes = newSizes(g)
		m.session, err = ort.Open(g, ort.Options{Device: o.Device, Threads: o.Threads, Folder: folder, NoSpin: true})
	}
	if err != nil {
		return nil, err
	}
	files = []string{m.Config.Model}
	for _, t := range onnx.Externals(&g.Graph) {
		if file := filepath.Join(folder, filepath.FromSlash(t.External.Location)); !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files, m.checkModel()
}

// checkModel checks the inputs and outputs of the graph.
func (m *network) checkModel() error {
	var names, outputs []string
	for _, in := range m.session.Inputs() {
		names = append(names, in.Name)
	}
	for _, out := range m.session.Outputs() {
		outputs = append(outputs, out.Name)
	}
	want := 1
	if len(m.Config.Inputs) > 0 {
		want = len(m.Config.Inputs)
	}
	if len(names) != want {
		return fmt.Errorf("%s has inputs %v, but this metric supplies %d", m.Config.Model, names, want)
	}
	for name := range m.Config.Inputs {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s has no input %q, only %v", m.Config.Model, name, names)
		}
	}
	output := &m.Config.Output.Name
	if *output == "" && len(outputs) == 1 {
		*output = outputs[0]
	}
	if !slices.Contains(outputs, *output) {
		return fmt.Errorf("%s has outputs %v: set output.name to one of them", m.Config.Model, outputs)
	}
	return nil
}

// roles are the roles of the pictures that the metric looks at.
func (m *network) roles() (roles []string) {
	for _, role := range m.Config.Of {
		if slices.Contains(pictureRoles, role) {
			roles = append(roles, role)
		}
	}
	for _, role := range m.Config.Inputs {
		roles = append(roles, role)
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// close frees the models.
func (m *network) close() error {
	var errs []error
	if m.session != nil {
		errs = append(errs, m.session.Close())
	}
	if m.encoder != nil {
		errs = append(errs, m.encoder.Close())
	}
	return errors.Join(errs...)
}

// value measures an edit: a number, a class name, or several named numbers.
func (m *network) value(ctx context.Context, s *edit.Views) (edit.Score, error) {
	c := &m.Config
	if len(c.Inputs) > 0 {
		feeds := map[string]*tensor.Dense{}
		for name, role := range c.Inputs {
			x, err := m.pixels(s, role)
			if err != nil {
				return edit.Score{}, err
			}
			feeds[name] = x
		}
		if err := m.oneSize(feeds); err != nil {
			return edit.Score{}, err
		}
		out, err := m.run(ctx, feeds)
		if err != nil {
			return edit.Score{}, err
		}
		return c.Output.value(out)
	}
	var outs [][]float32
	for _, role := range c.Of {
		out, err := m.output(ctx, s, role)
		if err != nil {
			return edit.Score{}, fmt.Errorf("%s: %w", role, err)
		}
		outs = append(outs, out)
	}
	if !c.cosine() {
		return c.Output.value(outs[0])
	}
	if len(outs) == 4 { // for example edit, source, caption, source_caption
		direction := heuristics.DirectionRaw
		if c.Unit {
			direction = heuristics.DirectionUnit
		}
		return c.Output.score(direction.Of(outs[1], outs[0], outs[3], outs[2]))
	}
	if len(outs[0]) != len(outs[1]) {
		return edit.Score{}, fmt.Errorf("embeddings of %d and %d numbers cannot be compared", len(outs[0]), len(outs[1]))
	}
	return c.Output.score(heuristics.Cosine(outs[0], outs[1]))
}

// oneSize refuses pictures, or boxes, of different sizes for a graph that sees several and does not resize them: a
// stride hides small differences.
func (m *network) oneSize(feeds map[string]*tensor.Dense) error {
	c := &m.Config
	names := slices.Sorted(maps.Keys(feeds))
	first := feeds[names[0]].Shape()
	for _, name := range names[1:] {
		if shape := feeds[name].Shape(); !shape.Eq(first) {
			return unfitError{fmt.Errorf("%s has %d x %d pixels, %s %d x %d: this metric needs equal sizes (or prepare.size)",
				c.Inputs[names[0]], first[3], first[2], c.Inputs[name], shape[3], shape[2])}
		}
	}
	return nil
}

// output is the models' output for one item.
func (m *network) output(ctx context.Context, s *edit.Views, role string) ([]float32, error) {
	if m.encoder == nil {
		x, err := m.pixels(s, role)
		if err != nil {
			return nil, err
		}
		return m.run(ctx, map[string]*tensor.Dense{m.session.Inputs()[0].Name: x})
	}
	embedding, err := m.embed(ctx, s, role)
	if err != nil || m.session == nil {
		return embedding, err
	}
	if m.Config.Unit {
		embedding = unit(embedding)
	}
	x := tensor.New(tensor.WithShape(1, len(embedding)), tensor.WithBacking(embedding))
	return m.run(ctx, map[string]*tensor.Dense{m.session.Inputs()[0].Name: x})
}

// embed is an encoder's embedding of a picture or a text.
func (m *network) embed(ctx context.Context, s *edit.Views, role string) ([]float32, error) {
	var all [][]float32
	var err error
	if slices.Contains(textRoles, role) {
		text := s.Text(textRole(role))
		if text == "" {
			return nil, errors.New("no text")
		}
		all, err = m.encoder.Texts(ctx, []string{text})
	} else {
		p := s.ByRole[role]
		if p == nil {
			return nil, errors.New("no picture")
		}
		if m.Config.Prepare.Box {
			if p, err = m.cutOut(s, role); err != nil {
				return nil, err
			}
		}
		all, err = m.encoder.Images(ctx, []*data.Picture{p})
	}
	if err != nil {
		return nil, err
	}
	return slices.Clone(all[0]), nil
}

// unit scales a vector to length 1.
func unit(v []float32) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return v
	}
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(float64(x) / math.Sqrt(sum))
	}
	return out
}

// run runs the graph and returns its output.
func (m *network) run(ctx context.Context, feeds map[string]*tensor.Dense) ([]float32, error) {
	if err := m.sizes.check(feeds); err != nil {
		return nil, err
	}
	out, err := m.session.Run(ctx, feeds)
	if err != nil {
		return nil, err
	}
	y := out[m.Config.Output.Name]
	if y.Dtype() != tensor.Float32 {
		return nil, fmt.Errorf("output %s is of type %v, want float32", m.Config.Output.Name, y.Dtype())
	}
	v := y.Float32s() // also for a scalar
	if n := m.Config.Output.First; n > len(v) {
		return nil, fmt.Errorf("output %s has %d numbers, want at least %d", m.Config.Output.Name, len(v), n)
	} else if n > 0 {
		v = v[:n]
	}
	return v, nil
}

// value converts a graph's output to a score.
func (o *Output) value(v []float32) (edit.Score, error) {
	want := max(1, len(o.Classes), len(o.Names))
	if len(v) != want {
		return edit.Score{}, fmt.Errorf("output %s has %d numbers, want %d", o.Name, len(v), want)
	}
	if len(o.Classes) > 0 {
		best := 0
		for i, x := range v {
			if x != x {
				return edit.Score{}, errors.New("the output of a class is NaN")
			}
			if x > v[best] {
				best = i
			}
		}
		return edit.Score{Value: math.NaN(), Unbounded: true, Answer: o.Classes[best]}, nil
	}
	if len(o.Names) == 0 {
		return o.score(float64(v[0]))
	}
	out := edit.Score{Value: math.NaN(), Unbounded: true}
	for i, name := range o.Names {
		x, err := o.scaled(float64(v[i]))
		if err != nil {
			return edit.Score{}, fmt.Errorf("%s: %w", name, err)
		}
		out.Dimensions = append(out.Dimensions, edit.Dimension{Name: name, Value: x})
	}
	slices.SortFunc(out.Dimensions, func(a, b edit.Dimension) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// score applies scale and range to a number.
func (o *Output) score(v float64) (edit.Score, error) {
	v, err := o.scaled(v)
	return edit.Score{Value: v, Score01: v, Unbounded: true}, err
}

// pixels prepares a picture as the graph's input [1, 3, height, width].
func (m *network) pixels(s *edit.Views, role string) (*tensor.Dense, error) {
	p := s.ByRole[role]
	if p == nil {
		return nil, fmt.Errorf("no picture %q", role)
	}
	c := &m.Config.Prepare
	var place Place
	var err error
	if c.Points != "" {
		if place, err = m.places.of(s.Edit, role); err != nil {
			return nil, err
		}
	}
	if c.Box {
		if p, err = m.cutOut(s, role); err != nil {
			return nil, err
		}
	}
	if c.Points != "" {
		p, err = alignFace(p, place.Points)
	} else if len(c.Size) == 2 {
		p = c.resize(p)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", role, err)
	}
	return tensor.New(tensor.WithShape(1, 3, p.Height, p.Width), tensor.WithBacking(c.normalize(p))), nil
}

// cutOut crops a picture to its box.
func (m *network) cutOut(s *edit.Views, role string) (*data.Picture, error) {
	place, err := m.places.of(s.Edit, role)
	if err != nil {
		return nil, err
	}
	p := s.ByRole[role]
	left, top, w, h, err := place.pixels(p.Width, p.Height)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", role, err)
	}
	return p.Crop(left, top, w, h), nil
}

// resize resizes a picture to the configured size.
func (c *Prepare) resize(p *data.Picture) *data.Picture {
	h, w := c.Size[0], c.Size[1]
	if c.Fit != "crop" {
		return p.Resize(w, h, filters[c.Filter])
	}
	side := h
	if c.Shorter > 0 {
		side = c.Shorter
	}
	// As torchvision's Resize(shorter) and CenterCrop(size).
	if p.Width <= p.Height {
		w, h = side, int(float64(side*p.Height)/float64(p.Width))
	} else {
		h, w = side, int(float64(side*p.Width)/float64(p.Height))
	}
	p = p.Resize(w, h, filters[c.Filter])
	side = c.Size[0]
	middle := func(n int) int { return int(math.RoundToEven(float64(n-side) / 2)) }
	return p.Crop(middle(w), middle(h), side, side)
}

// normalize returns [3, height, width].
func (c *Prepare) normalize(p *data.Picture) []float32 {
	if c.Order == "bgr" {
		swapped := data.NewPicture(p.Width, p.Height)
		for i := 0; i < len(p.Pix); i += 3 {
			swapped.Pix[i], swapped.Pix[i+1], swapped.Pix[i+2] = p.Pix[i+2], p.Pix[i+1], p.Pix[i]
		}
		p = swapped
	}
	mean, std := [3]float32{}, [3]float32{1, 1, 1}
	for i := range c.Mean {
		mean[i] = float32(c.Mean[i])
	}
	for i := range c.Std {
		std[i] = float32(c.Std[i])
	}
	return p.Normalize(mean, std)
}
