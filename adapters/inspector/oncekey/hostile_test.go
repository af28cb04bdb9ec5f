package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/internal/testkit"
)

// hostile does to a terminal all that a text can: it sets the title, clears the screen, goes back to the begin of the line,
// turns the text around, hides letters, and writes a line that looks like the command's own.
const hostile = "x\x1b[2J\x1b]0;owned\a\x1b]8;;http://evil\x1b\\\u009b31m\u0085\r\n" + forged + "\n\t\v\f\b\x00\x7f\u202eabc\u202c\u2066d\u2069\u200b\u200d\u2060\ufeff\u00ad\u2028\u2029\u034f\u115f\ufe0f\U000e0041\xff\xc3(\xed\xa0\x80 naïve 日本"

const forged = "done: the next retry runs the handler"

// forbidden are the runes and lines that must not be in an output.
func forbidden(text string) string {
	if !utf8.ValidString(text) {
		return "a byte that is not UTF-8"
	}
	for line := range strings.Lines(text) {
		if strings.TrimSuffix(line, "\n") == forged { // a line of a body has a margin
			return "a forged line"
		}
		for _, r := range strings.TrimSuffix(line, "\n") {
			if !isShown(r) {
				return fmt.Sprintf("%U", r)
			}
		}
	}
	return ""
}

// wantSafe checks an output, and that JSON is JSON.
func wantSafe(t *testing.T, name, stdout, stderr, format string) {
	t.Helper()
	if found := forbidden(stdout + stderr); found != "" {
		t.Errorf("%s writes %s:\n%q", name, found, stdout+stderr)
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	for format != "table" {
		var document any
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s writes no JSON (%v):\n%s", name, err, stdout)
			return
		}
	}
}

// filled fills every text of a value, with one element in each list.
func filled(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		filled(v.Index(0))
	case reflect.Struct:
		if when, isTime := reflect.TypeAssert[*time.Time](v.Addr()); isTime {
			*when = time.Unix(1_800_000_000, 0)
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Tag.Get("json") != "-" {
				filled(v.Field(i))
			}
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(409)
	case reflect.Uint64:
		v.SetUint(1)
	default: // none in the page's JSON
	}
}

// hostilePage returns a page whose every text is hostile. edit changes the reply of each kind.
func hostilePage(edit func(any)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var reply any
		switch path := strings.TrimPrefix(r.URL.Path, "/ops"); {
		case path == "/":
			reply = new(inspector.Records)
		case path == "/explain":
			reply = new(inspector.Explanation)
		case path == "/doctor":
			reply = new(inspector.Doctor)
		case path == "/events":
			reply = new(inspector.Tail)
		default:
			reply = new(inspector.Record)
		}
		filled(reflect.ValueOf(reply).Elem())
		edit(reply)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply)
	})
}

// asked runs the command against a transport, with a hostile standard input.
func asked(t *testing.T, network http.RoundTripper, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"--url", "http://shop/ops"}, args...), world{strings.NewReader(hostile), &out, &errs, network})
	return out.String(), errs.String(), code
}

// onces is every command that asks a page, so that it ends.
func onces() (all [][]string) {
	for _, args := range every {
		if args[0] == "tail" {
			args = append(args, "--once")
		}
		all = append(all, args)
	}
	return append(all, []string{"show", "/payments", "k", "--body"}, []string{"list", "--all", "--look", "1"}, []string{"settle", "/payments", "k", "--did-not-happen", "--why", "x"})
}

// Case 92: no text of a page reaches the terminal as it is: neither in a table, nor in JSON, nor in an error.
func TestHostilePage(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	for name, edit := range map[string]func(any){
		"as it is": func(any) {},
		"with ids": func(reply any) {
			if record, is := reply.(*inspector.Record); is {
				record.Record = strings.Repeat("ab", 32)
			}
		},
		"abandoned": func(reply any) {
			if record, is := reply.(*inspector.Record); is {
				record.Record, record.State = strings.Repeat("ab", 32), "abandoned"
			}
		},
		"not found": func(reply any) {
			if record, is := reply.(*inspector.Record); is {
				record.Record, record.Found = strings.Repeat("ab", 32), false
			}
		},
		"out of all time": func(reply any) {
			row := inspector.Row{LeaseLeft: 1 << 57, Created: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Expires: time.Unix(-1<<35, 0)}
			switch reply := reply.(type) {
			case *inspector.Records:
				reply.Records = []inspector.Row{row}
			case *inspector.Record:
				reply.Row = row
				reply.Record = strings.Repeat("ab", 32)
			}
		},
		"the last page": func(reply any) {
			if list, is := reply.(*inspector.Records); is {
				list.Next = ""
			}
		},
	} {
		for _, args := range onces() {
			for _, format := range []string{"table", "json", "ndjson"} {
				stdout, stderr, _ := asked(t, inProcess{hostilePage(edit)}, append(args, "-o", format)...)
				wantSafe(t, fmt.Sprintf("%s, %s -o %s", name, args, format), stdout, stderr, format)
				if stdout+stderr == "" {
					t.Errorf("%s: %s writes nothing", name, args)
				}
			}
		}
	}
}

// transport is a network with one reply.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Case 92: nor in the faults of a page, of the network and of what is no page.
func TestHostileFaults(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	fault := new(inspector.Fault)
	filled(reflect.ValueOf(fault).Elem())
	response := func(status int, header http.Header, body string) transport {
		return func(r *http.Request) (*http.Response, error) {
			return &http.Response{Status: hostile, StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		}
	}
	isJSON := http.Header{"Content-Type": {"application/json"}}
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusBadRequest, http.StatusBadGateway} {
		fault.Status = status
		text, err := json.Marshal(fault)
		testkit.Must(t, err)
		for name, network := range map[string]transport{
			"a fault":      response(status, isJSON, string(text)),
			"no JSON":      response(status, http.Header{"Content-Type": {hostile}}, hostile),
			"half of JSON": response(http.StatusOK, isJSON, `{"`+hostile),
			"another type": response(http.StatusOK, isJSON, `{"records":"`+url.PathEscape(hostile)+`","findings":1,"record":1,"events":1,"members":1}`),
			"a redirect":   response(http.StatusFound, http.Header{"Location": {"http://evil/" + hostile}}, ""),
			"the network":  func(*http.Request) (*http.Response, error) { return nil, errors.New(hostile) },
		} {
			for _, args := range onces() {
				stdout, stderr, code := asked(t, network, args...)
				wantSafe(t, name+" to "+strings.Join(args, " "), stdout, stderr, "table")
				if code == exitDone || !strings.HasPrefix(stderr, "oncekey: ") {
					t.Errorf("%s to %s: exit code %d and %q", name, args, code, stderr)
				}
			}
		}
	}
}

// Case 92: nor the texts of a file and of the command line.
func TestHostileFilesAndFlags(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var files []string
	for i, text := range []string{
		hostile,
		"routes:\n  \"POST /a\\e[2J\\u202e\\r\": {\"TTL\\e\": \"1\\e[2J\", LockTTL: \"\\e\\x9b\"}\n",
		"routes:\n  \"POST /a\\e[2J\\n" + forged + "\\n\": {IncludeFields: [\"a\\e\\n" + forged + "\"]}\n",
		"routes:\n  POST /a\x1b[2J\u202e: {LockTTL: 1\x1b}\n\x1b: 1\n\u202e: [\n",
		"\"\\e]0;x\\a\": 1\nroutes: \"\\e\"\n", "routes: {'POST /a': {RedactFields: ['\u202ea\u200b']}}\n", "a\xff\n",
	} {
		name := filepath.Join(folder, fmt.Sprintf("%d\x1b[2J\u202e\r\nb.yaml", i))
		testkit.Must(t, os.WriteFile(name, []byte(text), 0o600))
		files = append(files, name)
	}
	lines := [][]string{
		append([]string{"lint", "missing" + strings.ReplaceAll(hostile, "\x00", "")}, files...),
		{"--url", hostile, "list"},
		{"--redis", hostile, "list"},
		{"--redis", "redis://h/0?" + url.PathEscape(hostile) + "=1", "list"},
		{"--postgres", hostile, "list"},
		{"--postgres", "postgres://h/d?sslmode=" + url.PathEscape(hostile), "sweep"},
		{"--redis", "redis://127.0.0.1:1", "show", hostile},
		{"--redis", "redis://127.0.0.1:1", "explain", "/a", "k", "--body", "@" + hostile},
		{"--timeout", hostile, "list"},
		{"list", "--state", hostile},
		{"list", "-o", hostile},
		{hostile},
		{"list", "--" + hostile},
		{"list", hostile},
		{"--redis", "redis://127.0.0.1:1", "--as", hostile, "forget", strings.Repeat("ab", 32), "--why", hostile, "--yes-run-again", hostile, "--timeout", "1s"},
		{"hash", hostile, "k"},
		{"hash", "/a", hostile},
		{"hash", "--scope", hostile, "/a", "k"},
		{"hash", "/a\u202e\x1b", "k", "--service", hostile},
		{"migrate", "--print-sql", "--table", hostile},
		{"migrate", "--print-sql", "--table", hostile, "-o", "json"},
		{"--postgres", "postgres://127.0.0.1:1/" + url.PathEscape(hostile), "migrate", "status", "--timeout", "1s"},
		{"tail", "--url", "http://127.0.0.1:1", "--once", "--result", hostile},
		{"tail", "--url", "http://127.0.0.1:1", "--once", "--record", hostile},
		{"completion", hostile},
		{"completion", "bash"},
		{"completion", "fish"},
		{"completion", "zsh"},
		{"version"},
		{"--help"},
	}
	for _, file := range files {
		lines = append(lines, []string{"hash", "/a", "k", "--policies", file})
	}
	for _, args := range lines {
		var out, errs bytes.Buffer
		run(t.Context(), args, world{strings.NewReader(hostile), &out, &errs, http.DefaultTransport})
		wantSafe(t, fmt.Sprintf("%q", args), out.String(), errs.String(), "table")
		if out.String()+errs.String() == "" {
			t.Errorf("%q writes nothing", args)
		}
	}
}

// Case 92: what goes around the printer meets the same function, also a rune that comes in two parts.
func TestTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newPrinter(world{out: &out, err: &out}, hiding(nil))
	w := bufio.NewWriterSize(p.out, 16)
	_, _ = w.WriteString(hostile)
	_ = w.Flush()
	for _, one := range []byte("日\u009b\xe6") {
		_, _ = p.out.Write([]byte{one})
	}
	p.flush()
	if text := strings.ReplaceAll(out.String(), "\n"+forged+"\n", ""); forbidden(text) != "" || !strings.HasSuffix(text, `日\u009b\xe6`) {
		t.Errorf("%s in\n%q", forbidden(text), text)
	}
	for text, want := range map[string]string{
		"naïve 日本 é": "naïve 日本 é", "a\x1b\n\r\t": `a\u001b\n\r\t`, "\xff\u202e\U000e0041": `\xff\u202e\udb40\udc41`, `C:\x`: `C:\x`, "\ufffd": "\ufffd",
	} {
		if got := safe(text); got != want || safe(got) != got {
			t.Errorf("%q becomes %s, want %s", text, got, want)
		}
	}
}
