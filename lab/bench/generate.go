package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"assay/chat"
	"assay/internal/generate"
)

// many answers are generated at a time. Their speed is measured after prompts of short tokens: the difference of two
// long times would have the error of both.
const many, short = 8, 16

// answer measures the generation speed of a checkpoint: prompt tokens and answer tokens per second, one answer and
// eight at a time. generate_torch.py measures the same with transformers.
func answer(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: bench generate DIR PROMPT_TOKENS NEW_TOKENS")
	}
	prompt, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	tokens, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	m, err := generate.Open(args[0], generate.Options{Batch: many})
	if err != nil {
		return err
	}
	defer m.Close()
	results := map[string]float64{}
	for round := range 3 { // the first round warms up; the best of the others counts
		for _, n := range []int{1, many} {
			before, all, err := ask(m, n, prompt, tokens, round)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("prefill_%d", n)
			if round > 0 {
				results[name] = max(results[name], before)
				name = fmt.Sprintf("decode_%d", n)
				results[name] = max(results[name], all)
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

// ask returns tokens per second of n prompts, and of their n answers.
func ask(m *generate.Model, n, prompt, tokens, round int) (prefill, decode float64, err error) {
	took := func(prompt, most int) (time.Duration, chat.Usage, error) {
		var all sync.WaitGroup
		var mu sync.Mutex
		var used chat.Usage
		begin := time.Now()
		for i := range n { // questions differ from the first word: nothing is shared
			text := fmt.Sprintf("%d %d %d ", i, round, most) + strings.Repeat(" the", prompt)
			messages := []chat.Message{{Role: "user", Content: []chat.Part{{Text: text}}}}
			all.Go(func() {
				a, e := m.Chat(context.Background(), messages, chat.Options{MaxNewTokens: most})
				mu.Lock()
				defer mu.Unlock()
				if err = e; e == nil {
					used.Prompt += a.Usage.Prompt - a.Usage.Cached
					used.Completion += a.Usage.Completion
				}
			})
		}
		all.Wait()
		return time.Since(begin), used, err
	}
	long, used, err := took(prompt, 1)
	if err != nil {
		return 0, 0, err
	}
	first, _, err := took(short, 1)
	if err != nil {
		return 0, 0, err
	}
	whole, made, err := took(short, 1+tokens)
	if err != nil {
		return 0, 0, err
	}
	return float64(used.Prompt) / long.Seconds(), float64(made.Completion-n) / (whole - first).Seconds(), nil
}
