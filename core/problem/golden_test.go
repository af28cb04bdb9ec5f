package problem

import (
	"testing"

	"github.com/oncekey/oncekey/internal/testkit/golden"
)

// goldenCode is a code with the values that clients may rely on.
type goldenCode struct {
	Code    string
	Status  int
	Type    string
	Retries bool
}

func meaning(code string) goldenCode {
	p := New(code, "")
	return goldenCode{Code: p.Code, Status: p.Status, Type: p.Type, Retries: p.RetryAfter > 0}
}

// A code keeps its meaning.
func TestGoldenCodes(t *testing.T) {
	t.Parallel()
	golden.Each(t, "codes.jsonl", func(*testing.T) (all []goldenCode) {
		for _, code := range Codes() {
			all = append(all, meaning(code))
		}
		return all
	}, func(t *testing.T, released goldenCode) {
		t.Helper()
		golden.Want(t, meaning(released.Code), released)
	})
}
