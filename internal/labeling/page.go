package labeling

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"image"
	"image/jpeg"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/page"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"svg": (*Histogram).svg}).Parse(pageText))

// page renders the report as one self-contained HTML file: histograms are SVG, pictures data URIs. read returns the
// file of a picture.
func (l *mergeLog) page(read func(*picture) ([]byte, error)) ([]byte, error) {
	labels := map[string]bool{}
	for _, by := range l.report.Editors {
		for label := range by {
			labels[label] = true
		}
	}
	v := struct {
		*Report
		EditorLabels []string
		Shown        map[string][]shownExample // by rule
	}{l.report, slices.Sorted(maps.Keys(labels)), map[string][]shownExample{}}
	for rule, examples := range l.shown {
		for _, x := range examples {
			shown, err := x.show(l.config, read)
			if err != nil {
				return nil, err
			}
			v.Shown[rule] = append(v.Shown[rule], shown)
		}
	}
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, v)
	return b.Bytes(), err
}

type shownExample struct {
	ID, Instruction, Label, Dataset string
	Facts                           string
	Pictures                        []thumbnail
}

type thumbnail struct {
	Name string
	Data template.URL
}

func (x example) show(c *Config, read func(*picture) ([]byte, error)) (shownExample, error) {
	out := shownExample{ID: x.row.ID, Instruction: x.row.Instruction, Dataset: c.Sources[x.row.source].Name,
		Label: unlabelled}
	if x.label != nil {
		out.Label = fmt.Sprintf("%.3g", *x.label)
	}
	var facts []string
	if m := x.row.method(); m != "" {
		facts = append(facts, m)
	}
	for _, h := range similarities {
		if v, ok := h.of(x.row).Value(); ok {
			facts = append(facts, fmt.Sprintf("%s %.3f", h.name, v))
		} else if h.of(x.row).Undefined() {
			facts = append(facts, h.name+" undefined")
		}
	}
	out.Facts = strings.Join(facts, ", ")
	pictures := []struct {
		name string
		p    *picture
	}{{"source", x.row.Source}, {"edit", x.row.Edit}, {"target", x.row.Target}}
	for _, p := range pictures {
		if p.p == nil {
			continue
		}
		raw, err := read(p.p)
		if err != nil {
			return out, err
		}
		uri, err := thumb(raw)
		if err != nil {
			return out, fmt.Errorf("%s: %w", p.p.Path, err)
		}
		out.Pictures = append(out.Pictures, thumbnail{p.name, uri})
	}
	return out, nil
}

const thumbSide = 128 // pixels of the longer side

// thumb returns a small JPEG as a data URI.
func thumb(raw []byte) (template.URL, error) {
	p, err := data.Decode(raw, data.Limits{})
	if err != nil {
		return "", err
	}
	p = p.Thumbnail(thumbSide, data.Bicubic)
	rgba := image.NewRGBA(image.Rect(0, 0, p.Width, p.Height))
	for i := range p.Width * p.Height {
		copy(rgba.Pix[4*i:], p.Pix[3*i:3*i+3])
		rgba.Pix[4*i+3] = 255
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, rgba, &jpeg.Options{Quality: 80}); err != nil {
		return "", err
	}
	return page.DataURL("image/jpeg", b.Bytes()), nil
}

// svg draws the histogram over the range of non-empty bins, with the thresholds as lines. Each series is scaled to
// its largest bin.
func (h *Histogram) svg() template.HTML {
	const width, height, top, bottom = 640., 180., 14., 22.
	first, last := histBins, -1
	most := [2]int{}
	for i := range histBins {
		if h.Outputs[i]+h.Sources[i] > 0 {
			first, last = min(first, i), max(last, i)
		}
		most[0], most[1] = max(most[0], h.Outputs[i]), max(most[1], h.Sources[i])
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="histogram of %s">`, width, height, h.Similarity)
	if last < 0 {
		fmt.Fprintf(&b, `<text x="8" y="%g">no %s is known</text></svg>`, height/2, h.Similarity)
		return template.HTML(b.String())
	}
	for _, m := range h.marks { // keep thresholds visible
		if !math.IsNaN(m) {
			bin := min(max(int((m+1)/histWidth), 0), histBins-1)
			first, last = min(first, bin), max(last, bin)
		}
	}
	x := func(v float64) float64 { return ((v+1)/histWidth - float64(first)) / float64(last-first+1) * width }
	for series, counts := range [][histBins]int{h.Outputs, h.Sources} {
		for i, n := range counts {
			if n == 0 {
				continue
			}
			tall := float64(n) / float64(most[series]) * (height - top - bottom)
			left := x(-1 + histWidth*float64(i))
			fmt.Fprintf(&b, `<rect class="s%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%d</title></rect>`, series,
				left, height-bottom-tall,
				width/float64(last-first+1)-1, tall, n)
		}
	}
	for _, m := range h.marks {
		if !math.IsNaN(m) {
			fmt.Fprintf(&b, `<line class="mark" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><text x="%.1f" y="%g">%.4g</text>`, x(m),
				x(m), top, height-bottom,
				min(x(m)+3, width-40), top-3, m)
		}
	}
	step := 10 // bins between two numbers
	if last-first < 30 {
		step = 5
	}
	for i := first; i <= last+1; i++ {
		if i%step == 0 {
			v := -1 + histWidth*float64(i)
			fmt.Fprintf(&b, `<text class="axis" x="%.1f" y="%g">%.1f</text>`, min(max(x(v)-8, 0), width-20), height-6, v)
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
