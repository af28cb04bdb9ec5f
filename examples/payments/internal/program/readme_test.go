package program_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// exchange is a command of README's transcript, and the output that README shows.
type exchange struct{ command, output string }

func readme(t *testing.T) (exchanges []exchange) {
	t.Helper()
	text, err := os.ReadFile("../../../../README.md")
	testkit.Must(t, err)
	_, rest, found := strings.Cut(string(text), "```console\n")
	shown, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README has no transcript")
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(shown, "$ "), "\n$ ") {
		first, rest, _ := strings.Cut(part, "\n")
		for strings.HasSuffix(first, "\\") {
			var next string
			next, rest, _ = strings.Cut(rest, "\n")
			first += "\n" + next
		}
		exchanges = append(exchanges, exchange{first, rest})
	}
	return exchanges
}

// The program prints the commands of README, each of them once.
func TestCommands(t *testing.T) {
	t.Parallel()
	p := startProgram(t)
	p.end()
	var want []string
	for _, e := range readme(t) {
		if !slices.Contains(want, e.command) {
			want = append(want, e.command)
		}
	}
	output := strings.ReplaceAll(strings.Join(p.Output(), "\n"), strings.TrimPrefix(p.url, "http://"), "127.0.0.1:8080")
	got := regexp.MustCompile(`(?m)^curl (.*\\\n)*.*$`).FindAllString(output, -1)
	if len(want) != 2 || !slices.Equal(got, want) {
		t.Errorf("the program prints the commands\n%s\nREADME has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// README's transcript is the program's output, on both routers. Dots stand for
// lines, or for the rest of a line, that README omits.
func TestTranscript(t *testing.T) {
	t.Parallel()
	for _, router := range routers {
		t.Run(router, func(t *testing.T) {
			t.Parallel()
			address := strings.TrimPrefix(newServer(t, router), "http://")
			for _, e := range readme(t) {
				if got := curl(t, address, e.command); !testkit.Shown(e.output).MatchString(got) {
					t.Errorf("%s\ngot:\n%s\nwant:\n%s", e.command, got, e.output)
				}
			}
		})
	}
}

var argument = regexp.MustCompile(`'([^']*)'|[^\s\\]+`)

// curl runs the command against another address, and returns the output of curl -i.
func curl(t *testing.T, address, command string) string {
	t.Helper()
	words := argument.FindAllString(command, -1)
	for i, word := range words {
		words[i] = strings.Trim(word, "'")
	}
	if len(words) != 9 || words[0]+words[1]+words[3]+words[5]+words[7] != "curl-i-H-H--json" {
		t.Fatalf("not a curl -i URL -H HEADER -H HEADER --json BODY: %s", command)
	}
	target, err := url.Parse("http://" + words[2])
	testkit.Must(t, err)
	body := words[8]
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s\r\n\r\n%s",
		target.Path, address, len(body), words[4], words[6], body)
	dialer := net.Dialer{Timeout: 5 * time.Second}
	connection, err := dialer.DialContext(t.Context(), "tcp", address)
	testkit.Must(t, err)
	defer connection.Close()
	testkit.Must(t, connection.SetDeadline(time.Now().Add(10*time.Second)))
	if _, err := io.WriteString(connection, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(connection)
	testkit.Must(t, err)
	text := string(bytes.ReplaceAll(answer, []byte("\r\n"), []byte("\n")))
	return strings.Replace(text, "Connection: close\n", "", 1) // only this test's client asks to close the connection
}
