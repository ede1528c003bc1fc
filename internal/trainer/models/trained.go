package models

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"assay/checkpoints"
	"assay/internal/optim"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/optimizer"
	"assay/lora"
	"assay/onnx"
)

// Trained describes what a run trains. It is counted from the parameters that the optimizer receives, which follow
// from the configuration, the backbone and init: there is no other list.
type Trained struct {
	// linear layers with an adapter, by part: language, vision, projector
	Adapters map[string]int `json:"adapters"`
	Backbone map[string]int `json:"backbone,omitempty"` // tensors of the backbone itself, by part
	Head     int64          `json:"head"`               // parameters of the head
	Losses   int64          `json:"losses,omitempty"`   // parameters of the losses themselves: learned cuts
	// rows of the score token: of the embedding table, of the output layer
	TokenRows  int            `json:"token_rows"`
	Parameters int64          `json:"parameters"`           // of all
	Digest     string         `json:"digest"`               // of the tensors' names and shapes
	Modules    []string       `json:"modules,omitempty"`    // layers with an adapter
	Departures []string       `json:"departures,omitempty"` // settings of init that the run changes
	Groups     []TrainedGroup `json:"groups,omitempty"`     // tensors with their own learning rates
	Ways       []string       `json:"ways,omitempty"`       // what the adapter has besides low-rank matrices
}

// TrainedGroup is a parameter group with its own learning rate.
type TrainedGroup struct {
	Name        string                `json:"name"`
	Tensors     int                   `json:"tensors"`
	LR          float64               `json:"lr"` // the peak
	WeightDecay float64               `json:"weight_decay"`
	Schedule    config.ScheduleConfig `json:"schedule"`
}

// String returns what train prints.
func (g TrainedGroup) String() string {
	return fmt.Sprintf("%s: %d tensors, learning rate %g, weight decay %g, schedule %v", g.Name, g.Tensors, g.LR,
		g.WeightDecay, g.Schedule)
}

// trainedGroups describes the parameter groups, if the optimizer has groups. Groups without tensors were refused
// before.
func trainedGroups(c *config.Config, params []optim.Param) (out []TrainedGroup) {
	if c.Optimizer.Groups == nil {
		return nil
	}
	groups, _ := optimizer.GroupsOf(c, params)
	for i := range groups {
		g := &groups[i]
		s, _ := c.ScheduleOf(g.Name)
		out = append(out, TrainedGroup{Name: g.Name, Tensors: len(g.Params), LR: c.CourseOf(g.Name, 1).Peak,
			WeightDecay: c.DecayOf(g.Name), Schedule: *s})
	}
	return out
}

// ways lists what the adapter has besides low-rank matrices.
func ways(c *config.Config) (out []string) {
	if c.Mode != "lora" {
		return nil
	}
	if c.Lora.DoRA {
		out = append(out, "adapters use DoRA: the magnitudes of the weights' rows also train")
	}
	if c.Lora.Start != "" {
		out = append(out, fmt.Sprintf("adapters are initialized from the weights by %s", c.Lora.Start))
	}
	if c.Lora.Bias != "" && c.Lora.Bias != lora.BiasNone {
		out = append(out, "biases train: "+c.Lora.Bias)
	}
	if len(c.Lora.ModulesToSave) > 0 {
		out = append(out, "trained in full and saved with the adapter: "+strings.Join(c.Lora.ModulesToSave, ", "))
	}
	return out
}

// trainedTensor is a tensor that is trained, by its name in the scorer directory or the checkpoint.
type trainedTensor struct {
	name  string
	shape []int64
}

func trainedOf(tensors []trainedTensor) Trained {
	t := Trained{Adapters: map[string]int{}}
	for _, p := range lora.Parts() {
		t.Adapters[p] = 0
	}
	slices.SortFunc(tensors, func(a, b trainedTensor) int { return strings.Compare(a.name, b.name) })
	h := sha256.New()
	for _, x := range tensors {
		fmt.Fprintln(h, x.name, x.shape)
		size := onnx.Elements(x.shape)
		t.Parameters += size
		switch group := config.GroupOf(x.name); group {
		case config.AdapterGroup:
			if module, _ := lora.ModuleOf(x.name); strings.Contains(x.name, ".lora_A.") {
				t.Adapters[lora.Part(module)]++
				t.Modules = append(t.Modules, module)
			}
		case config.RowsGroup:
			t.TokenRows++
		case config.HeadGroup:
			t.Head += size
		case config.LossGroup: // of the objective, not part of the scorer
			t.Losses += size
		default:
			if t.Backbone == nil {
				t.Backbone = map[string]int{}
			}
			t.Backbone[group]++
		}
	}
	t.Digest = hex.EncodeToString(h.Sum(nil))[:24]
	return t
}

// String returns what train prints: "24 adapters in the language model, 0 in vision, 0 in the projector; head; 2
// token rows".
func (t Trained) String() string {
	var words []string
	if len(t.Modules) > 0 || t.Backbone == nil {
		words = append(words, counted(t.Adapters, "adapter"))
	}
	if t.Backbone != nil {
		words = append(words, counted(t.Backbone, "tensor"))
	}
	if t.Head > 0 {
		words = append(words, "head")
	}
	if t.Head > 0 || t.TokenRows > 0 {
		words = append(words, fmt.Sprintf("%d token rows", t.TokenRows))
	}
	return fmt.Sprintf("%s; %d parameters", strings.Join(words, "; "), t.Parameters)
}

// Describe returns what a run trains.
func Describe(c *config.Config, m Model) Trained {
	t := describeModel(m)
	t.Departures, t.Groups, t.Ways = c.Departures(), trainedGroups(c, m.Params()), ways(c)
	return t
}

// describeModel counts what a model trains.
func describeModel(m Model) Trained {
	var known map[string][]int64
	if s, ok := m.(Graph); ok {
		known = s.Shapes()
	}
	params := m.Params()
	tensors := make([]trainedTensor, len(params))
	for i, p := range params {
		shape, ok := known[p.Name]
		if !ok {
			for _, d := range p.Value.Shape() {
				shape = append(shape, int64(d))
			}
		}
		tensors[i] = trainedTensor{p.Name, shape}
	}
	return trainedOf(tensors)
}

// TrainedIn returns what a run trained, read from one of its checkpoints.
func TrainedIn(dir string) (Trained, error) {
	f, err := checkpoints.OpenFile(filepath.Join(dir, checkpoint.TensorFile))
	if err != nil {
		return Trained{}, err
	}
	defer f.Close()
	var tensors []trainedTensor
	for _, name := range f.Names() {
		if short, ok := strings.CutPrefix(name, "parameter/"); ok {
			info, _ := f.Info(name)
			tensors = append(tensors, trainedTensor{short, info.Shape})
		}
	}
	return trainedOf(tensors), nil
}

// Resolved is the content of a run's plan.json.
type Resolved struct {
	Trains     Trained           `json:"trains"`
	MicroBatch int               `json:"micro_batch"`
	Auto       map[string]string `json:"auto,omitempty"` // what auto resolved to: device, dtype and more
}
