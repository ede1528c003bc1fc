// Package metrics runs models that measure one property of an edit: the distance of two pictures, a cosine similarity
// of embeddings, a number, or a class. Each is an ONNX graph, or one of the built-in encoders, with a small YAML file
// that specifies which pictures it sees, how they are preprocessed, and what the output means. They provide the
// components of benchmarks that rank editors. Distances of pixels need no model, and [Export] writes the folders of
// LPIPS and of aesthetic predictors. A [Metric] is an [edit.Judge].
package metrics

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/strictyaml"
)

// Config is a metric's YAML file.
type Config struct {
	Format int    `yaml:"format"` // 1
	Name   string `yaml:"name"`   // name of the component that it measures
	About  string `yaml:"about"`  // description, for display

	Model   string `yaml:"model"`   // .onnx file, relative to the YAML file
	Encoder string `yaml:"encoder"` // encoder checkpoint; its embedding is the model's input, or is compared directly

	// Inputs maps the graph's inputs to source, edit or target, for graphs that see two pictures at once.
	Inputs map[string]string `yaml:"inputs"`
	// Of is what is measured: one picture, or two or four items. For two, the result is the cosine of their outputs;
	// the second may be caption or instruction, for encoders with a text tower. For four, it is the cosine of two
	// changes: from the second to the first, and from the fourth to the third.
	Of      []string `yaml:"of"`
	Unit    bool     `yaml:"unit"` // embeddings are normalised before the model sees them or changes are computed
	Prepare Prepare  `yaml:"prepare"`
	Output  Output   `yaml:"output"`
}

// Prepare defines how pictures are turned into the graph's input [1, 3, height, width].
type Prepare struct {
	Box     bool      `yaml:"box"`     // crop to the picture's box in the boxes file first
	Points  string    `yaml:"points"`  // "five": align the face points in the boxes file to ArcFace's
	Size    []int     `yaml:"size"`    // [height, width]; none: not resized
	Fit     string    `yaml:"fit"`     // stretch (to the size; default), crop (shorter side to the size, then centre crop)
	Shorter int       `yaml:"shorter"` // for fit crop: size of the shorter side before cropping; default: the size
	Filter  string    `yaml:"filter"`  // bicubic (default), bilinear, lanczos, nearest
	Order   string    `yaml:"order"`   // rgb (default), bgr
	Mean    []float64 `yaml:"mean"`    // for values on 0..1, in channel order; default 0
	Std     []float64 `yaml:"std"`     // default 1
}

// Output defines what the numbers mean.
type Output struct {
	Name    string    `yaml:"name"`    // of the graph's output, if there are several
	Classes []string  `yaml:"classes"` // the component is the class with the largest number
	Names   []string  `yaml:"names"`   // the component is an object of several named numbers
	First   int       `yaml:"first"`   // use only this many leading numbers, such as the class token's; 0: all
	Scale   []float64 `yaml:"scale"`   // [a, b]: the component is a + b times the number
	Range   []float64 `yaml:"range"`   // values outside are an error
}

var filters = map[string]data.Filter{
	"": data.Bicubic, "bicubic": data.Bicubic, "bilinear": data.Bilinear, "lanczos": data.Lanczos, "nearest": data.Nearest,
}

// The pictures and texts that a metric may look at.
var (
	pictureRoles = []string{"source", "edit", "target"}
	textRoles    = []string{"caption", "source_caption", "instruction"}
)

// textRole returns the role in an edit of a text in a metric's file, which may have a different name.
func textRole(name string) string {
	if name == "caption" {
		return "target_caption"
	}
	return name
}

// readConfig reads a metric's file, and reports all problems at once.
func readConfig(path string) (*Config, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	d := strictyaml.Decode(path, raw, c)
	if !d.Unreadable {
		c.check(d.Problem)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	for _, p := range []*string{&c.Model, &c.Encoder} {
		*p = strictyaml.Absolute(filepath.Dir(path), *p)
	}
	return c, nil
}

func (c *Config) check(problem func(key, format string, args ...any)) {
	if c.Format != 1 {
		problem("format", "%d: want 1", c.Format)
	}
	if c.Name == "" || strings.ContainsAny(c.Name, " \t/") {
		problem("name", "%q: want a single word, the name of the component", c.Name)
	}
	if c.Model == "" && c.Encoder == "" {
		problem("model", "want a model (.onnx), an encoder, or both")
	}
	c.checkSeen(problem)
	if c.Unit && c.Encoder == "" {
		problem("unit", "applies only to an encoder's embeddings")
	}
	if c.Encoder == "" {
		c.Prepare.check(problem)
	} else if p := c.Prepare; len(p.Size)+len(p.Mean)+len(p.Std) > 0 || p.Points+p.Fit+p.Filter+p.Order != "" {
		problem("prepare", "an encoder has its own preprocessing: only box is allowed")
	}
	c.Output.check(problem, c.cosine())
}

// cosine reports whether the outputs of two items, or two changes, are compared.
func (c *Config) cosine() bool { return len(c.Of) > 1 }

// texts reports whether item i may be a text: the second of two, and the third and fourth of four.
func (c *Config) texts(i int) bool {
	return c.Encoder != "" && c.Model == "" && (len(c.Of) == 2 && i == 1 || len(c.Of) == 4 && i >= 2)
}

func (c *Config) checkSeen(problem func(key, format string, args ...any)) {
	if (len(c.Inputs) > 0) == (len(c.Of) > 0) {
		problem("of", "want either of (one item, or two to compare) or inputs (a picture for each graph input)")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Inputs)) {
		if !slices.Contains(pictureRoles, c.Inputs[name]) {
			problem("inputs."+name, "%q: want %s", c.Inputs[name], strings.Join(pictureRoles, ", "))
		}
	}
	if len(c.Inputs) > 0 && c.Encoder != "" {
		problem("inputs", "only for graphs without an encoder")
	}
	if len(c.Of) > 2 && len(c.Of) != 4 || len(c.Of) == 4 && (c.Encoder == "" || c.Model != "") {
		problem("of", "%d items: want one or two, or four for an encoder without a model", len(c.Of))
	}
	for i, role := range c.Of {
		if !slices.Contains(pictureRoles, role) && !(c.texts(i) && slices.Contains(textRoles, role)) {
			problem("of", "%q: want %s, or as the second of an encoder's items %s (of four items: the last two)", role,
				strings.Join(pictureRoles, ", "), strings.Join(textRoles, ", "))
		}
	}
	if c.Model == "" && c.Encoder != "" && !c.cosine() {
		problem("of", "an encoder without a model compares two items")
	}
}

func (p *Prepare) check(problem func(key, format string, args ...any)) {
	p.checkSize(problem)
	if _, ok := filters[p.Filter]; !ok {
		problem("prepare.filter", "%q: want bicubic, bilinear, lanczos or nearest", p.Filter)
	}
	if !slices.Contains([]string{"", "rgb", "bgr"}, p.Order) {
		problem("prepare.order", "%q: want rgb or bgr", p.Order)
	}
	if p.Points != "" && (p.Points != "five" || !slices.Equal(p.Size, []int{112, 112}) || p.Box || p.Fit != "") {
		problem("prepare.points", "%q: want five, with size [112, 112], and neither box nor fit", p.Points)
	}
	for key, v := range map[string][]float64{"mean": p.Mean, "std": p.Std} {
		if len(v) != 0 && len(v) != 3 || key == "std" && slices.Contains(v, 0) {
			problem("prepare."+key, "%v: want three numbers", v)
		}
	}
}

// checkSize checks the keys that set the size of a picture.
func (p *Prepare) checkSize(problem func(key, format string, args ...any)) {
	sized := len(p.Size) == 2 && p.Size[0] > 0 && p.Size[1] > 0
	if len(p.Size) != 0 && !sized {
		problem("prepare.size", "%v: want [height, width]", p.Size)
		return
	}
	switch {
	case p.Fit != "" && !sized, !slices.Contains([]string{"", "stretch", "crop"}, p.Fit):
		problem("prepare.fit", "%q: want stretch or crop, with a size", p.Fit)
	case p.Fit == "crop" && p.Size[0] != p.Size[1]:
		problem("prepare.fit", "crop needs a square size")
	}
	if p.Shorter != 0 && (p.Fit != "crop" || !sized || p.Shorter < p.Size[0]) {
		problem("prepare.shorter", "%d: want at least the size, with fit crop", p.Shorter)
	}
}

func (o *Output) check(problem func(key, format string, args ...any), cosine bool) {
	if len(o.Classes) > 0 && len(o.Names) > 0 || cosine && len(o.Classes)+len(o.Names) > 0 {
		problem("output", "classes, names and a cosine are mutually exclusive")
	}
	if len(o.Classes) > 0 && len(o.Scale)+len(o.Range) > 0 {
		problem("output", "classes cannot have scale or range")
	}
	if o.First < 0 {
		problem("output.first", "%d: want the number of values to use", o.First)
	}
	if len(o.Scale) != 0 && len(o.Scale) != 2 {
		problem("output.scale", "%v: want [a, b], for a + b times the number", o.Scale)
	}
	if len(o.Range) != 0 && (len(o.Range) != 2 || !(o.Range[0] < o.Range[1])) {
		problem("output.range", "%v: want [smallest, largest]", o.Range)
	}
}

// scaled applies scale and range to a number.
func (o *Output) scaled(v float64) (float64, error) {
	if len(o.Scale) == 2 {
		v = o.Scale[0] + o.Scale[1]*v
	}
	if v != v {
		return 0, fmt.Errorf("the value is NaN")
	}
	if len(o.Range) == 2 && (v < o.Range[0] || v > o.Range[1]) {
		return 0, fmt.Errorf("%v is outside %v", v, o.Range)
	}
	return v, nil
}
