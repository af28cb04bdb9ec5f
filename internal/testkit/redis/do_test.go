package redistest

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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
		{[]string{"EVAL", "return {1, {'a', {}}}", "0"}, []any{int64(1), []any{"a", []any{}}}},
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
	var refused redis.Error
	if !errors.As(err, &refused) || !strings.HasPrefix(refused.Error(), "ERR unknown command") {
		t.Errorf("the error is %v, want the server's own", err)
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := Start(t)
	server.Pause()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := server.Do(short, "PING"); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v, want the deadline's", err)
	}
}
