package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// stub is a page with one reply to every request.
type stub struct {
	status int
	json   string
}

func (s stub) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(s.status)
	_, _ = w.Write([]byte(s.json))
}

func (s stub) said(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	var out bytes.Buffer
	code = run(t.Context(), append([]string{"--url", "http://shop/ops"}, args...), world{strings.NewReader(""), &out, &out, inProcess{s}})
	return out.String(), code
}

// every is each command that asks a page.
var every = [][]string{
	{"list"},
	{"show", "abcdef"},
	{"show", strings.Repeat("ab", 32)},
	{"show", "/payments", "k"},
	{"explain", "/payments", "k"},
	{"settle", "/payments", "k", "--happened", "--why", "x"},
	{"forget", "/payments", "k", "--why", "x"},
	{"doctor"},
	{"tail"},
	{"hash", "/payments", "k"},
}

// Each command ends with the exit code of the page's fault, and prints its cause.
func TestFaultsOfThePage(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	for status, code := range map[int]int{
		http.StatusServiceUnavailable: exitUnreachable, http.StatusUnauthorized: exitUsage, http.StatusForbidden: exitUsage,
		http.StatusBadRequest: exitUsage, http.StatusBadGateway: exitNothing,
	} {
		page := stub{status, fmt.Sprintf(`{"status":%d,"title":"The store has failed","detail":"d","cause":"connection refused","advice":"Mend the store."}`, status)}
		for _, args := range every {
			text, got := page.said(t, args...)
			if want := "oncekey: The store has failed: d\n  cause: connection refused\n  Mend the store.\n"; got != code || text != want {
				t.Errorf("%d to %s: exit code %d and %q, want %d and %q", status, args, got, text, code, want)
			}
		}
	}
	for _, args := range every {
		if text, code := (stub{http.StatusOK, "{"}).said(t, args...); code != exitNothing || !strings.HasPrefix(text, "oncekey: http://shop/ops/: ") {
			t.Errorf("half a reply to %s: exit code %d and %q", args, code, text)
		}
	}
	proxy := transport(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusBadGateway, Status: "502 Bad Gateway", Body: io.NopCloser(strings.NewReader("<html>")), Request: r}, nil
	})
	if _, stderr, code := asked(t, proxy, "list"); code != exitUnreachable || !strings.Contains(stderr, "502 Bad Gateway") {
		t.Errorf("the page of a proxy: exit code %d and %q", code, stderr)
	}
}

// A change whose reply is lost may have been made.
func TestLostReplyOfAChange(t *testing.T) {
	t.Parallel()
	page := stub{http.StatusOK, `{"record":"` + strings.Repeat("ab", 32) + `","state":"abandoned","found":true,"attempt":1}`}
	network := transport(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/settle") {
			return nil, io.ErrUnexpectedEOF
		}
		return inProcess{page}.RoundTrip(r)
	})
	if _, stderr, code := asked(t, network, "settle", "/payments", "k", "--happened", "--why", "x"); code != exitUnreachable || !strings.Contains(stderr, "not known: oncekey show abababab") {
		t.Errorf("exit code %d and %q", code, stderr)
	}
}

// Output that cannot be written is no success.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	reader, full := io.Pipe()
	testkit.Must(t, reader.CloseWithError(syscall.ENOSPC))
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"hash", "/payments", "k"}, world{nil, full, &stderr, nil}); code != exitNothing || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("exit code %d and %q", code, stderr.String())
	}
}

// First digits that name no record, or more than one.
func TestDigitsOfSeveralRecords(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		json string
		code int
		says string
	}{
		{`{"records":[{"record":"abcdef01"},{"record":"abcdef02"}]}`, exitUsage, "2 records begin with abcdef: abcdef01 and abcdef02"},
		{`{"record":"abcdef01","found":true,"records":[{"record":"abcdef01"},{"record":"abcdef01"}]}`, exitDone, "abcdef01"}, // Redis may list one twice
		{`{"records":[],"lookedAt":20000,"next":"more"}`, exitNothing, "among the first 20000: give the whole id"},
		{`{"records":[]}`, exitNothing, "no record begins with abcdef"},
	} {
		if text, code := (stub{http.StatusOK, row.json}).said(t, "show", "abcdef"); code != row.code || !strings.Contains(text, row.says) {
			t.Errorf("%s: exit code %d and %q, want %d and %q", row.json, code, text, row.code, row.says)
		}
	}
}

// A signal ends a command that waits for the standard input, and changes nothing.
func TestSignalWhileTheInputIsAwaited(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"forget", "/payments", "k", "--why", "x"},
		{"explain", "/payments", "k", "--body", "-"},
	} {
		in, terminal := io.Pipe()
		timer := time.AfterFunc(10*time.Second, func() { terminal.Close() })
		ctx, cancel := context.WithCancel(t.Context())
		signalled := time.AfterFunc(50*time.Millisecond, cancel)
		var out bytes.Buffer
		page := stub{http.StatusOK, `{"record":"abcdef01","found":true,"state":"completed","attempt":1}`}
		begun := time.Now()
		code := run(ctx, append([]string{"--url", "http://shop/ops"}, args...), world{in, &out, &out, inProcess{page}})
		if took := time.Since(begun); code == exitDone || took > 5*time.Second || strings.Contains(out.String(), "the next retry runs") {
			t.Errorf("%s: exit code %d after %v and %s", args, code, took, &out)
		}
		signalled.Stop()
		timer.Stop()
		terminal.Close()
	}
}

// A list without records is an empty list for programs, as the page's is.
func TestEmptyListAsJSON(t *testing.T) {
	t.Parallel()
	text, code := stub{http.StatusOK, `{"records":[],"lookedAt":4}`}.said(t, "list", "-o", "json")
	if code != exitNothing || !strings.Contains(text, `"records": []`) {
		t.Errorf("exit code %d and %s, want %d and no null", code, text, exitNothing)
	}
}

// A record that has changed since it was shown is not changed.
func TestRecordThatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	page := stub{http.StatusConflict, `{"record":"abcdef01","found":true,"state":"abandoned","attempt":1,"Notice":"Nothing was changed."}`}
	text, code := page.said(t, "settle", "/payments", "k", "--happened", "--why", "x")
	if code != exitNothing || !strings.HasSuffix(text, "oncekey: Nothing was changed.\n") {
		t.Errorf("exit code %d and %q, want %d and the page's notice", code, text, exitNothing)
	}
}

// The steps of an abandoned record say which of them was cut off.
func TestSteps(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{"abandoned": "cut off: ask the other service", "in_progress": "running"} {
		page := stub{http.StatusOK, `{"record":"abcdef01","found":true,"state":"` + state + `","steps":[{"name":"charge","recorded":true},{"name":"mail"}]}`}
		text, code := page.said(t, "show", "/payments", "k")
		if code != exitDone || !strings.Contains(text, "step    charge  recorded\n") || !strings.Contains(text, "step    mail  "+want+"\n") {
			t.Errorf("%s: exit code %d and\n%s\nwant charge recorded, and mail %s", state, code, text, want)
		}
	}
}

func TestNoColourInAFile(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/out")
	testkit.Must(t, err)
	defer file.Close()
	if coloured(file) {
		t.Error("a file gets colours")
	}
}
