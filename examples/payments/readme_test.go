package main

import (
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
)

const root = "../.."

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var argument = regexp.MustCompile(`'([^']*)'|\S+`)

// The README's transcript is the program's output, on both routers. Dots stand for lines,
// or for the rest of a line, that the README omits.
func TestTranscript(t *testing.T) {
	t.Parallel()
	_, rest, found := strings.Cut(readme(t), "```console\n")
	transcript, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the README has no transcript")
	}
	for name, router := range routers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine, err := core.New(memstore.New(), core.ScopeBy(userOf))
			if err != nil {
				t.Fatal(err)
			}
			books := backend{ledger: newMemoryLedger(&journal{})}
			server := httptest.NewServer(router(newShop(books), engine, times{time.Minute, time.Minute}))
			t.Cleanup(server.Close)
			for part := range strings.SplitSeq(strings.TrimPrefix(transcript, "$ "), "\n$ ") {
				command, want, _ := strings.Cut(part, "\n")
				got := curl(t, server.Listener.Addr().String(), command)
				if !shown(want).MatchString(got) {
					t.Errorf("%s\ngot:\n%s\nwant:\n%s", command, got, want)
				}
			}
		})
	}
}

// shown returns the pattern of a response. Dots in the text match omitted parts.
func shown(text string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(strings.TrimSpace(text))
	pattern = strings.ReplaceAll(pattern, "\n"+dots+"\n", "\n(?:.*\n)*?")
	pattern = strings.ReplaceAll(pattern, dots, ".*")
	return regexp.MustCompile(`\A` + pattern + `\s*\z`)
}

var dots = regexp.QuoteMeta("...")

// curl runs the command against another address, and returns the output of curl -i.
func curl(t *testing.T, address, command string) string {
	t.Helper()
	words := argument.FindAllString(command, -1)
	if len(words) != 7 || words[0]+words[1]+words[3]+words[5] != "curl-i-H-d" {
		t.Fatalf("not a curl -i URL -H @FILE -d BODY: %s", command)
	}
	target, err := url.Parse("http://" + words[2])
	if err != nil {
		t.Fatal(err)
	}
	body := content(t, words[6])
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n", target.Path, address, len(body))
	for header := range strings.SplitSeq(content(t, words[4]), "\n") {
		request += header + "\r\n"
	}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	connection, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(connection, request+"\r\n"+body); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(connection)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(answer), "\r\n", "\n")
	return strings.Replace(text, "Connection: close\n", "", 1) // only this test's client asks to close the connection
}

// content is the text of an argument: @FILE is in this folder.
func content(t *testing.T, argument string) string {
	t.Helper()
	name, isFile := strings.CutPrefix(argument, "@")
	if !isFile {
		return strings.Trim(argument, "'")
	}
	text, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
