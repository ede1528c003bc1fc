package lora

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readFile(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parsed returns a JSON object as Python would read it.
func parsed(t *testing.T, text string) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestConfigIsRewrittenAsPEFTWroteIt covers every field: the ones with a member, and the ones that are preserved.
func TestConfigIsRewrittenAsPEFTWroteIt(t *testing.T) {
	for _, dir := range []string{"../testdata/oracle/llavanext/scorer", "../testdata/oracle/llavanext/scorer_adiee",
		"testdata/adapter"} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			c, err := LoadConfig(dir)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parsed(t, readFile(t, dir, ConfigFile)), parsed(t, string(got))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", dir, diff)
			}
		})
	}
}

// TestNewConfigIsWhatPEFTWrites builds the oracle's configurations from scratch.
func TestNewConfigIsWhatPEFTWrites(t *testing.T) {
	c := NewConfig(8, 16, Names{Regex: `.*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)`})
	c.Base = "../backbone"
	got, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(
		parsed(t, readFile(t, "../testdata/oracle/llavanext/scorer", ConfigFile)),
		parsed(t, string(got)),
	); diff != "" {
		t.Error(diff)
	}
	c = NewConfig(2, 3, Names{List: []string{"layers.0.self_attn.q_proj"}})
	c.Base, c.Dropout, c.RSLoRA, c.Exclude = "testdata/oracle/llavanext/backbone", 1e-5, true, Names{
		List: []string{"k_proj"},
	}
	c.LayersToTransform, c.LayersPattern = []int{0, 1}, []string{"layers"}
	c.Ranks = []Override{{"vision_tower.*q_proj", 1}}
	c.Alphas = []Override{{`model\.vision.*\.q_proj`, 5}}
	got, err = c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := readFile(t, "testdata/adapter", ConfigFile)
	want = strings.Replace(want, `"layers_pattern": "layers"`, "\"layers_pattern\": [\n    \"layers\"\n  ]", 1)
	want = strings.Replace(want, `"init_lora_weights": false`, `"init_lora_weights": true`, 1)
	want = strings.Replace(want, `"revision": "caf\u00e9"`, `"revision": null`, 1)
	if diff := cmp.Diff(parsed(t, want), parsed(t, string(got))); diff != "" {
		t.Error(diff)
	}
}

// TestOtherVersions reads and changes a file of an old PEFT version and one with unknown fields.
func TestOtherVersions(t *testing.T) {
	old := `{"base_model_name_or_path": "a/b", "bias": "none", "fan_in_fan_out": null, "inference_mode": true,
	 "init_lora_weights": true,
	 "lora_alpha": 16.0, "lora_dropout": 5e-2, "modules_to_save": null, "peft_type": "LORA", "r": 8,
	 "target_modules": ["q_proj", "v_proj"],
	 "task_type": "CAUSAL_LM", "auto_mapping": {"b": [1, 2.50], "a": "\u00e9"}, "zeta": false, "eta": [],
	 "layers_to_transform": 3}`
	c, err := parseConfig([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	if c.Alpha != 16 || c.Dropout != 0.05 || len(c.LayersToTransform) != 1 {
		t.Errorf("got %+v, want alpha 16, dropout 0.05, one layer to transform", c)
	}
	d := c.Clone()
	d.Base, d.Rank = "../backbone", 4
	text, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got := parsed(t, string(text))
	for name, want := range map[string]any{
		"auto_mapping":            map[string]any{"a": "é", "b": []any{1.0, 2.5}},
		"zeta":                    false,
		"eta":                     []any{},
		"lora_alpha":              16.0,
		"lora_dropout":            0.05,
		"use_rslora":              false,
		"base_model_name_or_path": "../backbone",
		"r":                       4.0,
		"layers_to_transform":     3.0,
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, got[name]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		})
	}
	if again, err := parseConfig(text); err != nil || again.Rank != 4 {
		t.Errorf("read back: got rank %d, %v, want 4", again.Rank, err)
	}
}

// TestPatternsKeepTheirOrder: the first match counts, so a different order would be a different adapter.
func TestPatternsKeepTheirOrder(t *testing.T) {
	c := NewConfig(2, 3, Names{Regex: "(?P<x>q)_proj"})
	c.Ranks = Overrides{{"z.*", 4}, {"a.*", 2}}
	text, err := c.Encode()
	if err != nil || !strings.Contains(string(text), "(?P<x>q)_proj") {
		t.Fatalf("Encode: got %s, %v, want %s in it", text, err, "(?P<x>q)_proj")
	}
	again, err := parseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.Ranks, again.Ranks); diff != "" {
		t.Error(diff)
	}
	rewritten, err := again.Encode() // as by a run that continues to train an adapter
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), string(rewritten)); diff != "" {
		t.Errorf("read and written again: want -, got +:\n%s", diff)
	}
	twice, err := parseConfig([]byte(`{"target_modules": ["q"], "rank_pattern": {"b": 1, "a": 2, "b": 3}}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Overrides{{"b", 3}, {"a", 2}}, twice.Ranks); diff != "" { // as Python's dict
		t.Error(diff)
	}
}

func TestRefusedConfigs(t *testing.T) {
	for text, want := range map[string]string{
		`{"target_modules": ["q"], "modules_to_save": ["lm_head"], "bias": "all"}`:  "PEFT saves such biases twice",
		`{"target_modules": ["q"], "use_dora": true, "init_lora_weights": "pissa"}`: "use_dora with init_lora_weights",
		`{"target_modules": ["q"], "bias": "boft_only"}`:                            `bias is "boft_only"`,
		`{"target_modules": ["q"], "modules_to_save": [""]}`:                        "an empty name",
		`{"target_modules": ["q"], "modules_to_save": ["a("]}`:                      "modules_to_save: regular expression",
		`{"target_modules": ["q"], "init_lora_weights": 3}`:                         "init_lora_weights is 3",
		`{"target_modules": ["q"], "init_lora_weights": "pissa_niter_4"}`:           "changes the base weights",
		`{"target_modules": ["q"], "trainable_token_indices": [3]}`:                 "trainable_token_indices is set",
		`{"target_modules": ["q"], "use_magic": true}`:                              `unknown field "use_magic" (true)`,
		`{"target_modules": ["q"], "peft_type": "IA3"}`:                             "peft_type is IA3",
		`{"target_modules": null}`:                                                  "target_modules is empty",
		`{"target_modules": 3}`:                                                     "target_modules is 3",
		`{"target_modules": ["q", 3]}`:                                              "a list of strings",
		`{"target_modules": ["q"], "r": 0}`:                                         "r is 0",
		`{"target_modules": ["q"], "r": 2.5}`:                                       "r is 2.5",
		`{"target_modules": ["q"], "lora_alpha": "x"}`:                              "lora_alpha is x",
		`{"target_modules": ["q"], "lora_dropout": 1}`:                              "lora_dropout is 1",
		`{"target_modules": ["q"], "rank_pattern": {"q": 1.5}}`:                     `rank_pattern "q" is 1.5`,
		`{"target_modules": ["q"], "alpha_pattern": ["q"]}`:                         "alpha_pattern is [q]",
		`{"target_modules": ["q"], "rank_pattern": {"(": 2}}`:                       `rank_pattern: regular expression "("`,
		`{"target_modules": ["q"], "inference_mode": "yes"}`:                        "inference_mode is yes",
		`{"target_modules": ["q"], "layers_to_transform": [1, "a"]}`:                "layers_to_transform is",
		`{"target_modules": ["q"], "layers_pattern": "layers"}`:                     "needs layers_to_transform",
		`{"target_modules": "q", "layers_to_transform": [1]}`:                       "need a list of target_modules",
		`{"target_modules": ["q"]} x`:                                               "follows the JSON object",
		`{"target_modules": ["q", null]}`:                                           "a list of strings",
		`{"target_modules": ["q"], "rank_pattern": {"q": null}}`:                    "rank_pattern is",
		`[]`: "cannot unmarshal",
		`{"target_modules": ["q"], "r": -1, "lora_dropout": 2, "use_dora": true, "task_type": 1}`: "r is -1",
	} {
		t.Run(text, func(t *testing.T) {
			if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", text, err, want)
			}
		})
	}
}

// TestLoadConfig: an error includes the file's path, and is fs.ErrNotExist for a missing file.
func TestLoadConfig(t *testing.T) {
	dir := t.TempDir()
	if _, err := LoadConfig(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got error %v, want %v", err, fs.ErrNotExist)
	}
	path := filepath.Join(dir, ConfigFile)
	for text, want := range map[string]string{
		`{"target_modules": ["q"], "r": 3}`: "",
		`{"target_modules": ["q"], "r": 0}`: path + ": r is 0",
		`{"target_modules": ["q"]} {}`:      path + ": text follows the JSON object",
		`{"target_modules": `:               path + ": unexpected EOF",
	} {
		t.Run(text, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			c, err := LoadConfig(dir)
			holdsError(t, "LoadConfig", err, want)
			if want == "" && c.Rank != 3 {
				t.Errorf("got rank %d, want 3", c.Rank)
			}
		})
	}
}

// TestEncodeKeepsSpellings: unchanged values are written as they were read, and empty names are null.
func TestEncodeKeepsSpellings(t *testing.T) {
	read := `{"target_modules": ["q"], "lora_alpha": 16.0, "lora_dropout": 5e-2, "layers_to_transform": 3, "later": false,
	 "base_model_name_or_path": "a/b", "r": 8}`
	c, err := parseConfig([]byte(read))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change      func(c *Config)
		want, never []string
	}{
		"unchanged": {func(*Config) {}, []string{`"lora_alpha": 16.0`, `"lora_dropout": 5e-2`, `"layers_to_transform": 3,`,
			`"later": false`, `"base_model_name_or_path": "a/b"`, `"task_type": null`, `"peft_type": "LORA"`}, nil},
		"changed": {func(c *Config) { c.Alpha, c.Base, c.Rank = 4, "", 2 }, []string{`"lora_alpha": 4,`,
			`"lora_dropout": 5e-2`, `"base_model_name_or_path": null`, `"r": 2,`}, []string{"16.0", "a/b"}},
		"named": {func(c *Config) { c.TaskType = "CAUSAL_LM" }, []string{`"task_type": "CAUSAL_LM"`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := c.Clone()
			test.change(d)
			text, err := d.Encode()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("got\n%s\nwant %s in it", text, want)
				}
			}
			for _, never := range test.never {
				if strings.Contains(string(text), never) {
					t.Errorf("got\n%s\nwant no %s in it", text, never)
				}
			}
			dir := t.TempDir()
			if err := d.Save(dir); err != nil || readFile(t, dir, ConfigFile) != string(text) {
				t.Errorf("Save: got error %v and\n%s\nwant\n%s", err, readFile(t, dir, ConfigFile), text)
			}
		})
	}
}

// TestCloneIsApart: changes to a copy do not affect the original.
func TestCloneIsApart(t *testing.T) {
	build := func() *Config {
		c := NewConfig(1, 2, Names{List: []string{"q"}})
		c.Exclude, c.ModulesToSave = Names{List: []string{"e"}}, []string{"m"}
		c.Ranks, c.Alphas = Overrides{{"r", 1}}, Overrides{{"a", 1}}
		c.LayersToTransform, c.LayersPattern = []int{1}, []string{"l"}
		c.fields = map[string]any{"f": 1}
		return c
	}
	c := build()
	d := c.Clone()
	if diff := cmp.Diff(c, d, cmp.AllowUnexported(Config{})); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
	d.Rank, d.Targets.List[0], d.Exclude.List[0], d.ModulesToSave[0] = 9, "x", "x", "x"
	d.Ranks[0].Value, d.Alphas[0].Value, d.LayersToTransform[0], d.LayersPattern[0] = 9, 9, 9, "x"
	d.fields["f"] = 9
	if diff := cmp.Diff(build(), c, cmp.AllowUnexported(Config{})); diff != "" {
		t.Errorf("the original after changes of the copy (-want +got):\n%s", diff)
	}
}
