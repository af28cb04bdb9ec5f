package redistest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestDoReturnsWhatTheServerAnswers(t *testing.T) {
	t.Parallel()
	server := Start(t)
	tests := []struct {
		words []string
		want  any
	}{
		{[]string{"SET", "key", "two words\r\n"}, "OK"},
		{[]string{"GET", "key"}, "two words\r\n"},
		{[]string{"GET", "nothing"}, nil},
		{[]string{"EXISTS", "key"}, int64(1)},
		{[]string{"MGET", "key", "nothing"}, []any{"two words\r\n", nil}},
		{[]string{"EVAL", "return {1, {'a', {}}}", "0"}, []any{int64(1), []any{"a", []any(nil)}}},
	}
	for _, test := range tests {
		got, err := server.Do(t.Context(), test.words...)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q gives %#v (%v), want %#v", test.words, got, err, test.want)
		}
	}
}

func TestDoReturnsTheServersError(t *testing.T) {
	t.Parallel()
	_, err := Start(t).Do(t.Context(), "NONSENSE")
	if refused := replyError(""); !errors.As(err, &refused) || !strings.HasPrefix(string(refused), "ERR unknown command") {
		t.Errorf("the error is %v, want the server's own", err)
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := Start(t)
	server.Pause()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := server.Do(short, "PING"); err == nil || !strings.Contains(err.Error(), "no answer to PING") {
		t.Errorf("the error is %v, want none to have come", err)
	}
}

func TestReplyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{"", "+OK", "!\r\n", "$x\r\n", "$-2\r\n", "$99999999999\r\n", "$5\r\nabc", "*2\r\n:1\r\n", ":x\r\n"} {
		c := conversation{reader: bufio.NewReader(strings.NewReader(reply))}
		if got, err := c.read(); err == nil {
			t.Errorf("%q is read as %#v, want an error", reply, got)
		}
	}
	c := conversation{reader: bufio.NewReader(strings.NewReader("+OK"))}
	if _, err := c.read(); !errors.Is(err, io.EOF) {
		t.Errorf("half a line gives %v, want io.EOF", err)
	}
}
