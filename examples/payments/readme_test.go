package main

import (
	"fmt"
	"io"
	"io/fs"
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

var (
	quoted   = regexp.MustCompile(`'([^']*)'`)
	dateLine = regexp.MustCompile(`(?m)^Date: .*$`)
)

// The README's transcript is what the program really prints, on both routers:
// to the byte, but for the date.
func TestTranscript(t *testing.T) {
	t.Parallel()
	_, rest, found := strings.Cut(readme(t), "<!-- transcript -->\n```console\n")
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
			server := httptest.NewServer(router(newShop(books), engine, time.Minute))
			t.Cleanup(server.Close)
			for part := range strings.SplitSeq(strings.TrimPrefix(transcript, "$ "), "\n$ ") {
				command, want, _ := strings.Cut(part, "\n")
				got := curl(t, server.Listener.Addr().String(), command)
				if masked(got) != masked(want) {
					t.Errorf("%s\ngot:\n%s\nwant:\n%s", command, got, want)
				}
			}
		})
	}
}

func masked(answer string) string {
	return strings.TrimSpace(dateLine.ReplaceAllString(answer, "Date: today"))
}

// curl does what the command says, at another address, and returns what curl -i
// prints.
func curl(t *testing.T, address, command string) string {
	t.Helper()
	words := strings.Fields(command)
	if len(words) < 3 || words[0] != "curl" || words[1] != "-i" {
		t.Fatalf("not a curl -i: %s", command)
	}
	target, err := url.Parse(words[2])
	if err != nil {
		t.Fatal(err)
	}
	arguments := quoted.FindAllStringSubmatch(command, -1)
	body := arguments[len(arguments)-1][1]
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n", target.Path, address, len(body))
	for _, header := range arguments[:len(arguments)-1] {
		request += header[1] + "\r\n"
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
	return strings.Replace(text, "Connection: close\n", "", 1) // which this client asked for
}

// Every test that the README names exists, in the package that it names.
func TestReadmeNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range declared.FindAllSubmatch(source, -1) {
			tests[string(match[1])] = true
			tests[filepath.Base(filepath.Dir(path))+": "+string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile("`((?:\\w+: )?Test\\w+)`").FindAllStringSubmatch(readme(t), -1) {
		if !tests[match[1]] {
			t.Errorf("the README names %s, which does not exist", match[1])
		}
	}
}
