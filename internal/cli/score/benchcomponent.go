package score

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/chat"
	"assay/edit"
	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/report"
	"assay/internal/benchmarks/runner"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/metrics"
	"assay/t2i"
	"assay/textjudge"
)

// components opens what --component names. VLM judges share one model, which is opened for the first of them.
type components struct {
	*benchFlags
	command *cobra.Command
	metric  metrics.Options
	scales  map[string]edit.Range // of the components that judges may fill; nil: only metrics fill components here
	closed  bool                  // metrics may only fill components in scales
	model   *chat.Kept
}

func (o *components) Close() error {
	if o.model == nil {
		return nil
	}
	return o.model.Close()
}

// measure runs what --component names, and returns the files of components.
func (f *benchFlags) measure(c *cobra.Command, r *report.Report, set protocol.Set) (paths []string, err error) {
	if len(f.metrics) == 0 {
		return nil, nil
	}
	measurable := set.(protocol.Measurable) // only such sets have the flag
	items, err := measurable.Outputs()
	if err != nil {
		return nil, exit.Usage(err)
	}
	open := components{benchFlags: f, command: c,
		metric: metrics.Options{Device: f.runtime.device, Threads: f.runtime.threads}}
	if composed, ok := set.(protocol.Composed); ok {
		open.scales = composed.Components()
		_, open.closed = set.(protocol.Closed)
	}
	if f.boxes != "" {
		if open.metric.Places, err = metrics.ReadPlaces(f.boxes); err != nil {
			return nil, exit.Usage(err)
		}
	}
	defer func() { err = errors.Join(err, open.Close()) }()
	for _, named := range f.metrics {
		component, err := open.open(named)
		if err != nil {
			return nil, err
		}
		component.Dir = f.folder(r)
		path, err := measureOne(c, r, measurable, items, component)
		if err := errors.Join(err, component.Judge.Close()); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func measureOne(
	c *cobra.Command, r *report.Report, set protocol.Measurable, items []*edit.Edit, component *runner.Component,
) (path string, err error) {
	name := strings.Join(component.Names, ", ")
	bar := cli.Bar{Command: c, What: name, Unit: "edits"}
	bar.Set(0, len(items))
	component.Progress = bar.Set
	path, err = component.Measure(c.Context(), set, items)
	bar.Close()
	switch {
	case errors.Is(err, context.Canceled):
		return "", fmt.Errorf("measurements are saved next to %s; the same command resumes: %w", path, exit.ErrInterrupted)
	case err != nil:
		return "", capped(err, "measurements are saved next to "+path+"; the same command resumes")
	}
	r.Facts = append(r.Facts, fmt.Sprintf("component %s: %s, %s", name, component.By, path))
	r.AddUnmeasured(name, component.Failed)
	if len(component.Failed) == len(items) {
		return "", fmt.Errorf("%s could not be measured for any item: %s", name, component.Failed[0].Error)
	}
	return path, nil
}

// open opens NAME=WHAT, or WHAT, which then names its component itself.
func (o *components) open(named string) (*runner.Component, error) {
	name, what, ok := strings.Cut(named, "=")
	if _, err := os.Stat(named); err == nil || !ok {
		name, what = "", named
	}
	_, err := os.Stat(filepath.Join(what, "scorer.yaml"))
	isScorer := err == nil || t2i.Is(what)
	if o.scales == nil && (isScorer || textjudge.Is(what)) {
		return nil, exit.Usagef("--component %s: only metrics measure components of this benchmark; use --scorer or --judge "+
			"for others", named)
	}
	if err := o.knows(named, name); err != nil {
		return nil, err
	}
	switch {
	case textjudge.Is(what):
		return o.openJudge(name, what)
	case isScorer:
		return o.openScorer(name, what)
	}
	m, err := metrics.Open(what, o.metric)
	if err != nil {
		return nil, exit.Usage(err)
	}
	c := &runner.Component{Judge: m, Names: []string{m.Info().Name}}
	if name != "" {
		c.Names[0] = name
	}
	if o.closed {
		if err := o.knows(named, c.Names[0]); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return c, nil
}

// knows refuses the name of a component that the benchmark does not have, if the benchmark lists its components; "":
// not yet named.
func (o *components) knows(named, name string) error {
	if _, known := o.scales[name]; known || o.scales == nil || name == "" {
		return nil
	}
	return exit.Usagef("--component %s: there is no component %q; there are %s", named, name,
		strings.Join(slices.Sorted(maps.Keys(o.scales)), ", "))
}

// openScorer opens a scorer directory, whose score is the component.
func (o *components) openScorer(name, dir string) (*runner.Component, error) {
	if name == "" {
		return nil, exit.Usagef("--component %s: NAME=%s is needed: which component is the scorer's score", dir, dir)
	}
	flags := o.runtime.runtimeFlags
	flags.scorer, flags.dimension, flags.backbone = dir, "", "" // those are --scorer's
	s, err := flags.open(o.command)
	if err != nil {
		return nil, err
	}
	fingerprint, err := s.Fingerprint()
	if err == nil {
		err = o.fits(dir, name, s.Info().Range)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &runner.Component{Judge: s, Names: []string{name}, Together: 1,
		By: fmt.Sprintf("%s (%.8s)", filepath.Base(filepath.Clean(dir)), fingerprint)}, nil
}

// openJudge opens a VLM judge.
func (o *components) openJudge(name, what string) (c *runner.Component, err error) {
	run := &o.runtime
	if o.model == nil {
		if run.scorer != "" && run.answers.local.backbone != "" {
			return nil, exit.Usagef("--backbone belongs to --scorer here: measure %s separately", what)
		}
		run.answers.local.o.Threads, run.answers.local.o.Device = run.threads, run.device
		if o.model, err = run.answers.open(o.command); err != nil {
			return nil, err
		}
	}
	j, err := run.judgeOver(o.command, what, o.model)
	if err != nil {
		return nil, err
	}
	if name != "" {
		j.Config.Component = name
	}
	fingerprint, err := j.Fingerprint()
	if err != nil {
		return nil, err
	}
	j.Workers = o.model.Concurrency(run.answers.local.o.Batch)
	c = &runner.Component{Judge: j, Dimensions: j.Config.Component == "", Together: 4 * max(j.Workers, 1),
		By: fmt.Sprintf("%s by %s, %s prompts %.8s (%.8s)", j.Config.Name, run.answers.modelName(), j.Asks, j.Prompts(),
			fingerprint)}
	ranges := j.Config.Components()
	for _, component := range slices.Sorted(maps.Keys(ranges)) {
		if _, known := o.scales[component]; !known && c.Dimensions {
			continue // a number that is not a component
		}
		if err := o.fits(what, component, ranges[component]); err != nil {
			return nil, err
		}
		c.Names = append(c.Names, component)
	}
	if len(c.Names) == 0 {
		return nil, exit.Usagef("--component %s: NAME=%s is needed: the judge names no component, and none of its numbers "+
			"has the name of one (%s)", what, what, strings.Join(slices.Sorted(maps.Keys(o.scales)), ", "))
	}
	return c, nil
}

// fits refuses a judge whose range differs from the component's.
func (o *components) fits(what, component string, of edit.Range) error {
	scale, known := o.scales[component]
	switch {
	case !known:
		return exit.Usagef("--component %s measures %q, which is not a component here; there are %s", what, component,
			strings.Join(slices.Sorted(maps.Keys(o.scales)), ", "))
	case of != scale:
		return exit.Usagef("--component %s: it scores %v, but %s is %s", what, of.Words(), component, scale.Words())
	}
	return nil
}
