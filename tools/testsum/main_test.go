package main

import (
	"strings"
	"testing"

	"assay/internal/long"
)

func TestSummarize(t *testing.T) {
	const events = `{"Action":"output","Package":"a","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"a","Test":"TestGood"}
{"Action":"pass","Package":"a","Elapsed":1.5}
{"Action":"output","Package":"b","Test":"TestBad","Output":"want 1\n"}
{"Action":"fail","Package":"b","Test":"TestBad"}
{"Action":"skip","Package":"b","Test":"TestNot"}
{"Action":"output","Package":"b","Test":"TestLong","Output":"long.go:16: ` + long.Reason + `\n"}
{"Action":"skip","Package":"b","Test":"TestLong"}
{"Action":"pass","Package":"b","Test":"TestSlow","Elapsed":12.34}
{"Action":"output","Package":"b","Output":"FAIL\n"}
{"Action":"fail","Package":"b"}
{"ImportPath":"c","Action":"build-output","Output":"c.go:1: odd\n"}
{"ImportPath":"c","Action":"build-fail"}
not an event`
	var out strings.Builder
	s := summarize(strings.NewReader(events), &out)
	s.print(&out, true)
	want := "ok  a" + strings.Repeat(" ", 31) + "    1.5 s\nwant 1\nFAIL\nc.go:1: odd\nnot an event" +
		"slow for the short form: TestSlow of b, 12.3 s\n" +
		"2 passed, 1 failed, 1 skipped, 1 left out since they take long (make test-all runs them)\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
