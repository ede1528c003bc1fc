package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"assay/internal/atomicfile"
)

// askArg makes this program start a server, send it some requests, and save the answers. This turns a server into a
// command that ends, and that can be killed, disturbed and paired like the others.
const askArg = "-ask"

// answersFile is the file that it writes into its folder.
const answersFile = "answered.jsonl"

// askMain starts the server given by args, sends it the requests of the file questions, and writes the answers into
// the folder out, the first of args.
func askMain(questions string, args []string) int {
	if err := askAll(questions, args[0], args[1], args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

func askAll(questions, out, score string, args []string) (err error) {
	raw, err := os.ReadFile(questions)
	if err != nil {
		return err
	}
	server, err := startServer(context.Background(), score, "", args...)
	if err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	defer func() {
		if e := server.Stop(); err == nil && e != nil {
			err = fmt.Errorf("%s: %w", out, e)
		}
		os.Stderr.Write(server.Stderr.Bytes())
	}()
	return atomicfile.Write(filepath.Join(out, answersFile), func(w io.Writer) error {
		for line := range bytes.Lines(raw) {
			answer, err := askOne(server.URL, line)
			if err == nil {
				_, err = w.Write(append(bytes.TrimSpace(answer), '\n'))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// askOne retries if the server is busy.
func askOne(url string, body []byte) (answer []byte, err error) {
	for range 20 {
		code := 0
		if code, answer, err = post(url, body); err == nil && code == http.StatusOK {
			return answer, nil
		}
		err = errors.Join(err, fmt.Errorf("%d %s", code, answer))
		if code != http.StatusServiceUnavailable && code != http.StatusTooManyRequests {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	return nil, fmt.Errorf("asking %s: %w", url, err)
}

// post sends a scoring request.
func post(url string, body []byte) (code int, answer []byte, err error) {
	r, err := http.Post(url+"/v1/score", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer r.Body.Close()
	answer, err = io.ReadAll(r.Body)
	return r.StatusCode, answer, err
}

// writeQuestions writes requests for each scorer, about the pictures in turn.
func writeQuestions(path string, pictures []string, scorers ...string) error {
	var text bytes.Buffer
	for i := range pictures {
		source, err1 := os.ReadFile(pictures[i])
		edit, err2 := os.ReadFile(pictures[(i+1)%len(pictures)])
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		for _, name := range scorers {
			body, err := json.Marshal(map[string]any{"scorer": name, "source": source, "edits": [][]byte{edit, source},
				"instruction": fmt.Sprint("make it picture ", i)})
			if err != nil {
				return err
			}
			text.Write(append(body, '\n'))
		}
	}
	return os.WriteFile(path, text.Bytes(), 0o666)
}
