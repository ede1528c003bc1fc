package model

import (
	"slices"

	"assay/onnx"
)

// Graphs builds what a scorer runs, for a device that need not be here: by name.
func Graphs(p *ScorerState, o Options) (map[string]*onnx.Model, error) {
	e, err := openPipeline(p, trainNothing, o)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	builders := map[string]buildFunc{"vision": e.visionGraph}
	for _, s := range []forwardSpec{{}, {State: true, Next: true}, {Pixels: true}} {
		name, build := e.forwardGraph(s)
		builders[name] = build
	}
	for _, pixels := range []bool{false, true} {
		name, build := e.jointGraph(pixels)
		builders[name] = build
	}
	out := map[string]*onnx.Model{}
	for name, build := range builders {
		for _, v := range []variant{inBlocks(nil, false), inBlocks([]bool{true}, true)} {
			name, build := v(name, build)
			b, err := e.graph(name, build)
			if err != nil {
				return nil, err
			}
			out[name] = b.Model
		}
	}
	return out, nil
}

// StepGraph is the training step of a tuner over that many groups of samples, all but one in blocks.
func (t *Tuner) StepGraph(groups int) (*onnx.Model, error) {
	blocks := slices.Repeat([]bool{true}, groups)
	blocks[0] = false
	b, err := t.graph(inBlocks(blocks, groups > 1)(t.stepGraph(groups)))
	if err != nil {
		return nil, err
	}
	return b.Model, nil
}

// StepGraph is the training step of dialogues.
func (t *LanguageTuner) StepGraph() (*onnx.Model, error) {
	b, err := t.graph(t.step(true))
	if err != nil {
		return nil, err
	}
	return b.Model, nil
}

// SpeakingGraphs are the graphs of a backbone that continues texts.
func SpeakingGraphs(dir string, o Options) (map[string]*onnx.Model, error) {
	l, err := OpenLanguageModel(dir, "", o)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	out := map[string]*onnx.Model{}
	for name, build := range map[string]buildFunc{"generate": l.stepGraph, "vision": l.visionGraph} {
		for _, v := range []variant{inBlocks(nil, false), inBlocks(nil, true)} {
			name, build := v(name, build)
			b, err := l.graph(name, build)
			if err != nil {
				return nil, err
			}
			out[name] = b.Model
		}
	}
	return out, nil
}

// ComputeHalf makes a language model for CUDA compute in float16, for which the CPU has kernels, too.
func (l *LanguageModel) ComputeHalf() { l.config.DType = "float16" }

// CacheRoomOf is CacheRoom of a device with so much free memory.
func (l *LanguageModel) CacheRoomOf(free int64) (int64, error) { return l.cacheRoom(free) }

// OpenUnspread opens the graph of runs with rows as they lie: see [Graph.spread].
func (l *LanguageModel) OpenUnspread() error {
	_, err := l.session("generate", l.buildStep)
	return err
}
