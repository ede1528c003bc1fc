package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kit is what cases are made of.
type kit struct {
	bin, mpi, dir, root string
	table               string // of edits
	pictures            []string
	steps               int    // that training takes
	model               string // the backbone that is trained
	judge               string // address of a chat server, which is this process
}

func (k *kit) program(name string) string { return filepath.Join(k.bin, name) }

func (k *kit) scorer() string { return filepath.Join(k.root, "backbones", "tiny-scorer") }

// judged are arguments of commands that ask a judge.
func (k *kit) judged(out string) []string {
	return []string{"--url", k.judge, "--model", "m", "--store", storeOf(out)}
}

// text writes a file that a command reads, with the right paths.
func text(path, what string) string {
	if err := os.WriteFile(path, []byte(what), 0o666); err != nil {
		panic(err)
	}
	return path
}

// judgeCases ask a server.
func (k *kit) judgeCases() []command {
	judge := func(out, table string, more ...string) []string {
		return slices.Concat([]string{k.program("score"), "judge", "--config", "editscore", "--in", k.table, "--out",
			filepath.Join(out, table)}, more, k.judged(out))
	}
	return []command{{
		name:    "score judge",
		args:    func(out string) []string { return judge(out, "judged.jsonl") },
		results: []string{"judged.jsonl"},
		quick:   true,
	}, {
		name:    "score judge --shard any/5",
		args:    func(out string) []string { return judge(out, "scores.jsonl", "--shard", "any/5") },
		finish:  func(out string) []string { return judge(out, "scores.jsonl", "--merge") },
		results: []string{"scores.jsonl"},
	}, {
		name: "score bench --judge",
		args: func(out string) []string {
			return append(k.bench(out), append([]string{"--judge", "editscore"}, k.judged(out)...)...)
		},
		results: []string{"bench/predictions.jsonl"},
	}, {
		name: "label captions, a server's",
		args: func(out string) []string {
			config := text(filepath.Join(out, "captions.yaml"), fmt.Sprintf("in: %s\nout: captioned.jsonl\ngiven: replace\n"+
				"store: store\nserver: {url: %q, model: m}\n", k.table, k.judge))
			return []string{k.program("label"), "captions", "--config", config}
		},
		results: []string{"captioned.jsonl"},
	}, {
		name: "score serve, asked",
		args: func(out string) []string {
			self, err := os.Executable()
			if err != nil {
				panic(err)
			}
			return append([]string{self, askArg, filepath.Join(k.dir, "questions.jsonl"), out, k.program("score"), "--threads",
				"1", "--scorer", "tiny=" + k.scorer(), "--judge", "words=editscore"}, k.judged(out)...)
		},
		results: []string{answersFile},
	}}
}

// onceCases make a folder once.
func (k *kit) onceCases() []command {
	question := filepath.Join(k.dir, "question.txt")
	return []command{{
		name: "train quantize",
		args: func(out string) []string {
			return []string{k.program("train"), "quantize", "--backbone", filepath.Join(k.root, "testdata", "oracle",
				"qwen2_5_vl", "backbone"), "--out", filepath.Join(out, "packed"), "--bits", "4", "--block", "32"}
		},
		results: []string{"packed"},
		once:    "packed",
	}, {
		name: "score import",
		args: func(out string) []string {
			return []string{k.program("score"), "import", "choices", "--base", filepath.Join(k.root, "backbones", "tiny"),
				"--prompts", question, "--choices", "0,1,2", "--out", filepath.Join(out, "digits")}
		},
		results: []string{"digits"},
		quick:   true,
		once:    "digits",
	}}
}

// bench is score bench on a small benchmark.
func (k *kit) bench(out string) []string {
	set := filepath.Join(k.dir, "aim")
	return []string{k.program("score"), "bench", "aim-bench", "--ratings", set, "--editors",
		filepath.Join(set, "A") + "," + filepath.Join(set, "B"), "--resamples", "20", "--out", filepath.Join(out, "bench")}
}

// writeBench writes a small benchmark in AIM-Bench's layout: two editors' outputs.
func (k *kit) writeBench() error {
	dir := filepath.Join(k.dir, "aim")
	put := func(path, picture string) error {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if os.Link(picture, path) == nil {
			return nil
		}
		raw, err := os.ReadFile(picture)
		if err != nil {
			return err
		}
		return os.WriteFile(path, raw, 0o666)
	}
	var items []map[string]any
	n := len(k.pictures)
	for i := range 8 {
		emotion := []string{"awe", "fear", "anger"}[i%3]
		items = append(items, map[string]any{"original_image": fmt.Sprintf("s%d.jpg", i), "edit_type": "add_object",
			"edited_image": fmt.Sprintf("s%d_%s_instruction_1.png", i, emotion), "edit_prompt": "make the sky purple",
			"target_emotion": map[string]any{"emotion": emotion, "VAD": []int{5, 5, 5}}})
		if err := put(filepath.Join(dir, "benchmark", fmt.Sprintf("s%d.jpg", i)), k.pictures[i%n]); err != nil {
			return err
		}
		for e, editor := range []string{"A", "B"} {
			path := filepath.Join(dir, editor, "edited_output", fmt.Sprintf("s%d_edited_%s.png", i, emotion))
			if err := put(path, k.pictures[(i+e+1)%n]); err != nil {
				return err
			}
		}
	}
	raw, err := json.Marshal(items)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "Instructions.json"), raw, 0o666)
}

// localCases run a model on this machine.
func (k *kit) localCases() []command {
	tiny := filepath.Join(k.root, "backbones", "tiny")
	sharded := func(out string, more ...string) []string {
		return append(append(k.bench(out), "--scorer", k.scorer(), "--threads", "1"), more...)
	}
	return []command{{
		name: "score bench --scorer",
		args: func(out string) []string {
			return append(k.bench(out), "--scorer", k.scorer()) // on all cores
		},
		results: []string{"bench/predictions.jsonl"},
	}, {
		name:    "score bench --shard any/3",
		args:    func(out string) []string { return sharded(out, "--shard", "any/3") },
		finish:  func(out string) []string { return sharded(out, "--merge") },
		results: []string{"bench/predictions.jsonl"},
	}, {
		name: "score calibrate",
		args: func(out string) []string {
			own := filepath.Join(out, "scorer")
			if !exists(filepath.Join(own, "scorer.yaml")) {
				if err := k.copyScorer(own); err != nil {
					panic(err)
				}
			}
			return []string{k.program("score"), "calibrate", "--scorer", own, "--in", k.table, "--out",
				filepath.Join(out, "report"), "--threads", "1"}
		},
		results: []string{"scorer/calibration.json", "scorer/scorer.yaml", "report/report.json"},
	}, {
		name: "label captions, a local model's",
		args: func(out string) []string {
			prompts := text(filepath.Join(out, "prompts.yaml"), "source:\n  - {pictures: [source], ask: 'what is there? "+
				"[INSTRUCTION]'}\ntarget:\n  - {pictures: [target], ask: 'what is there? [SOURCE_CAPTION]; [INSTRUCTION]'}\n")
			config := text(filepath.Join(out, "captions.yaml"), fmt.Sprintf("in: %s\nout: captioned.jsonl\ngiven: replace\n"+
				"store: store\nprompts: %s\nmodel: {backbone: %s, adapter: %s-captions, threads: 1, answers: 4}\n",
				filepath.Join(k.dir, "few.jsonl"), prompts, tiny, tiny))
			return []string{k.program("label"), "captions", "--config", config}
		},
		results: []string{"captioned.jsonl"},
	}}
}

// copyScorer makes a scorer directory of a command's own. scorer.yaml comes last: a kill may come before.
func (k *kit) copyScorer(dir string) error {
	for _, name := range []string{"adapter_config.json", "adapter_model.safetensors", "head.safetensors", "scorer.yaml"} {
		raw, err := os.ReadFile(filepath.Join(k.scorer(), name))
		if err == nil {
			err = os.MkdirAll(dir, 0o777)
		}
		own := strings.Replace(string(raw), "backbone: ../tiny", "backbone: "+filepath.Join(k.root, "backbones", "tiny"), 1)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(own), 0o666)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ranks is training by two processes, where there is an MPI.
func (k *kit) ranks(name, config string) []command {
	launcher, err := exec.LookPath("mpirun")
	train := filepath.Join(k.mpi, "train")
	if err != nil || !exists(train) {
		fmt.Printf("not tried: %s (it needs mpirun and %s, which make mpi builds)\n", name, train)
		return nil
	}
	start := []string{launcher, "-n", "2"}
	if version, _ := exec.Command(launcher, "--version").Output(); strings.Contains(string(version), "Open MPI") {
		start = append(start, "--oversubscribe", "--allow-run-as-root", "--bind-to", "none")
	}
	return []command{{
		name: name,
		args: func(out string) []string {
			return append(start, train, "--config", text(filepath.Join(out, "run.yaml"), config))
		},
		results: []string{"run/scorer", "run/best"},
	}}
}

// startJudge starts a chat server that lives until this process ends.
func startJudge() string { return httptest.NewServer(http.HandlerFunc(answer)).URL }

// answer is a chat server that says the same of every edit.
func answer(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{
		"model": "m",
		"choices": []any{map[string]any{"finish_reason": "stop",
			"message": map[string]string{"role": "assistant", "content": `{"score": [20, 10], "reasoning": "so"}`}}},
		"usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
	})
}
