package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// The program prints the commands of the page docs/agents.md, and each response is that of the
// page, on both routers. Dots stand for lines, or for the rest of a line, that the page omits.
func TestPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/agents.md")
	testkit.Must(t, err)
	_, rest, found := strings.Cut(string(text), "```console\n$ ")
	transcript, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the page has no transcript")
	}
	for _, router := range []string{"chi", "gin"} {
		t.Run(router, func(t *testing.T) {
			t.Parallel()
			s := startShown(t, router)
			var commands []string
			for part := range strings.SplitSeq(transcript, "\n$ ") {
				command, want, _ := strings.Cut(part, "\n")
				commands = append(commands, command)
				if got := s.curl(strings.ReplaceAll(command, "127.0.0.1:8080", s.address)); !testkit.Shown(want).MatchString(got) {
					t.Errorf("%s\ngot:\n%s\nwant:\n%s", command, got, want)
				}
			}
			if printed := strings.Join(commands, "\n"); strings.ReplaceAll(s.printed, s.address, "127.0.0.1:8080") != printed {
				t.Errorf("the program prints\n%s\nand the page has\n%s", s.printed, printed)
			}
			s.expectEffects(effects{charges: 1, charged: 3000, orders: 1, mugs: 2})
		})
	}
}

// shownProgram is the running program, whose charges wait at a gate.
type shownProgram struct {
	*merchant
	gate
	address, printed string
}

func startShown(t *testing.T, router string) *shownProgram {
	t.Helper()
	s := &shownProgram{merchant: &merchant{T: t}}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	stdout, output := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"-addr", "127.0.0.1:0", "-router", router}, output, t.Output(), func(ctx context.Context, given settings) (*backend, error) {
			b, err := open(ctx, given)
			if err == nil {
				s.b, s.gate = b, gated(b)
			}
			return b, err
		})
		output.Close()
	}()
	t.Cleanup(func() {
		stop()
		testkit.Equal(t, <-ended, 0, "the exit code")
	})
	lines := bufio.NewReader(stdout)
	for range strings.Count(tour, "\n") {
		line, err := lines.ReadString('\n')
		testkit.Must(t, err)
		if address, is := strings.CutPrefix(line, "listening on http://"); is {
			s.address = strings.TrimSpace(address)
			s.url = "http://" + s.address
		} else if strings.HasPrefix(line, "curl ") {
			s.printed += line
		}
	}
	s.printed = strings.TrimSpace(s.printed)
	return s
}

var argument = regexp.MustCompile(`'([^']*)'|\S+`)

// curl runs the command, and returns its output.
func (s *shownProgram) curl(command string) string {
	s.Helper()
	words := argument.FindAllString(command, -1)
	r := request{method: http.MethodGet, header: map[string]string{}}
	withHeader, impatient := false, false
	for i := 1; i < len(words); i++ {
		switch option := words[i]; option {
		case "-i":
			withHeader = true
			continue
		case "-m":
			impatient = true
		case "-H":
			for line := range strings.SplitSeq(s.content(words[i+1]), "\n") {
				name, value, _ := strings.Cut(line, ": ")
				r.header[name] = value
			}
		case "-d":
			r.method, r.body = http.MethodPost, s.content(words[i+1])
		default:
			r.path = strings.TrimPrefix(option, s.address)
			continue
		}
		i++ // its argument
	}
	if impatient {
		return s.loseResponse(r)
	}
	a := s.send(r)
	if a.status == http.StatusConflict { // the page's reader waits for the charge
		s.opened <- struct{}{}
		s.retry(s.Context(), r)
	}
	if !withHeader {
		return a.body
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "HTTP/1.1 %d %s\n", a.status, http.StatusText(a.status))
	for _, name := range slices.Sorted(maps.Keys(a.header)) {
		fmt.Fprintf(&text, "%s: %s\n", name, a.header.Get(name))
	}
	return text.String() + "\n" + a.body
}

// loseResponse sends a request, and hangs up while the charge is made.
func (s *shownProgram) loseResponse(r request) string {
	s.Helper()
	ctx, hangUp := context.WithCancel(s.Context())
	defer hangUp()
	given := make(chan answer, 1)
	go func() {
		a, _ := s.try(ctx, r)
		given <- a
	}()
	s.await(s.T)
	hangUp()
	if a := <-given; a.status != 0 {
		s.Errorf("the response was not lost: %d %s", a.status, a.body)
	}
	return "curl: (28) Operation timed out after 1000 milliseconds with 0 bytes received"
}

// content is the text of an argument: @FILE is in this folder.
func (s *shownProgram) content(argument string) string {
	s.Helper()
	name, isFile := strings.CutPrefix(argument, "@")
	if !isFile {
		return strings.Trim(argument, "'")
	}
	text, err := os.ReadFile(filepath.Clean(name))
	testkit.Must(s, err)
	return strings.TrimSpace(string(text))
}
