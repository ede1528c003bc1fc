package released

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPythonFormat(t *testing.T) {
	got, err := pythonFormat("{{a}} {text_prompt} }}", "text_prompt")
	if err != nil || got != "{a} [INSTRUCTION] }" {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{
		"{other} {text_prompt}", "nothing", "[INSTRUCTION] {text_prompt}", "} {text_prompt}", "{0}",
	} {
		if got, err := pythonFormat(bad, "text_prompt"); err == nil {
			t.Errorf("%q becomes %q", bad, got)
		}
	}
}

// TestPublished reads prompts as in the judge's code: templates in one file, the suffix in the file next to it.
func TestPublished(t *testing.T) {
	dir := t.TempDir()
	code := filepath.Join(dir, "prompts.py")
	file := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	file("prompts.py", "INSTRUCTION_EDIT_FOLLOWING = '''a {text_prompt}'''\n"+
		"INSTRUCTION_EDIT_QUALITY = '''b {text_prompt}'''\n")
	_, err := readPrompts(code, rewardToken, editRewardPrompts)
	if err == nil || !strings.Contains(err.Error(), collator) {
		t.Errorf("error %v, want one about %s", err, collator)
	}
	file(collator, "prompt_with_special_token = ' <|Reward|>'\n")
	for _, path := range []string{code, dir} {
		texts, err := readPrompts(path, rewardToken, editRewardPrompts)
		if err != nil || texts[0] != "a {text_prompt} <|Reward|>" || texts[1] != "b {text_prompt} <|Reward|>" {
			t.Errorf("%s: %q, %v", path, texts, err)
		}
	}
	file(hpsv3Prompt.code, "INSTRUCTION = 'c {text_prompt}'\nprompt_with_special_token = ' <|Reward|>'\n")
	for _, path := range []string{filepath.Join(dir, hpsv3Prompt.code), dir} {
		texts, err := readPrompts(path, rewardToken, []prompt{hpsv3Prompt})
		if err != nil || texts[0] != "c {text_prompt} <|Reward|>" {
			t.Errorf("%s: %q, %v", path, texts, err)
		}
	}
	texts := []string{"a {text_prompt} <|Reward|>", "b"}
	digests, same, warnings := published(texts, editRewardPrompts)
	if same || len(warnings) != 2 || digests["following"] != digest(texts[0]) {
		t.Errorf("%v, published %v: %q", digests, same, warnings)
	}
	file("following.txt", "no token {text_prompt}")
	file("quality.txt", "<|Reward|> {text_prompt} <|Reward|>")
	_, err = readPrompts(dir, rewardToken, editRewardPrompts)
	if err == nil || !strings.Contains(err.Error(), "0 times") {
		t.Errorf("error %v, want one about the token", err)
	}
}
