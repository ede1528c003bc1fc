// Command hub is a local Hugging Face Hub for checks from Python: hub --repo model:org/name=FOLDER... The folders
// hold the files of each repository at main. It prints its address and serves until it is stopped. GET /sent returns
// the number of bytes of files sent since the last call.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"assay/internal/hub/hubtest"
)

func main() {
	log.SetFlags(0)
	var repos []*hubtest.Repo
	flag.Func("repo", "kind:org/name=folder, may be repeated", func(text string) error {
		kind, rest, _ := strings.Cut(text, ":")
		id, folder, ok := strings.Cut(rest, "=")
		if !ok {
			return fmt.Errorf("want model:org/name=folder, not %s", text)
		}
		files, err := hubtest.Files(folder)
		commit := hubtest.Commit(text)
		repos = append(repos, &hubtest.Repo{Kind: kind, ID: id, Refs: map[string]string{"main": commit},
			Commits: map[string]map[string][]byte{commit: files}})
		return err
	})
	gated := flag.String("gated", "", "token that all repositories require; empty: none")
	page := flag.Int("page", 0, "files per page of a list")
	flag.Parse()
	for _, r := range repos {
		r.Gated = *gated != ""
	}
	s := hubtest.Start(repos...)
	s.Token, s.Page = *gated, *page
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/sent" {
			return false
		}
		fmt.Fprint(w, s.Sent())
		return true
	}
	fmt.Println(s.URL)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
	s.Close()
}
