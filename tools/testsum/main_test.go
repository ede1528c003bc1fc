package main

import (
	"strings"
	"testing"
)

func TestSummarize(t *testing.T) {
	const events = `{"Action":"output","Package":"a","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"a","Test":"TestGood"}
{"Action":"pass","Package":"a","Elapsed":1.5}
{"Action":"output","Package":"b","Test":"TestBad","Output":"want 1\n"}
{"Action":"fail","Package":"b","Test":"TestBad"}
{"Action":"skip","Package":"b","Test":"TestNot"}
{"Action":"output","Package":"b","Output":"FAIL\n"}
{"Action":"fail","Package":"b"}
{"ImportPath":"c","Action":"build-output","Output":"c.go:1: odd\n"}
{"ImportPath":"c","Action":"build-fail"}
not an event`
	var out strings.Builder
	passed, failed, skipped := summarize(strings.NewReader(events), &out)
	if passed != 1 || failed != 1 || skipped != 1 {
		t.Errorf("%d passed, %d failed, %d skipped, want 1 each", passed, failed, skipped)
	}
	want := "ok  a" + strings.Repeat(" ", 31) + "    1.5 s\nwant 1\nFAIL\nc.go:1: odd\nnot an event"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
