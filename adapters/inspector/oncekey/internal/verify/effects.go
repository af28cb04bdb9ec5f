package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// EffectsAt returns a function for Target.Effects that gets the count from a URL. The response is a
// number, or JSON that has one at path, such as data.0.count. Each request has the header. The function is
// safe for concurrent use. Its error wraps ErrUnreachable if no response comes.
func EffectsAt(address string, header http.Header, path string, timeout time.Duration) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		t := &Target{Header: header}
		r, err := t.request(http.MethodGet, address, "", nil, "effects")
		if err != nil {
			return 0, err
		}
		seen := (&sender{timeout: timeout}).send(ctx, r, never)
		switch {
		case seen.Status == 0:
			return 0, fmt.Errorf("%w: %s", ErrUnreachable, seen.failed)
		case !seen.succeeded():
			return 0, fmt.Errorf("the URL of effects responds %d, and not 2xx", seen.Status)
		}
		return numberAt(seen.Body, path)
	}
}

// EffectsOf is EffectsAt with the output of a shell's command, which ends with the context.
func EffectsOf(command, path string) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		out := new(bounded)
		process := exec.CommandContext(ctx, "sh", "-c", command) //nolint:gosec // the user's own command line
		process.Stdout, process.WaitDelay = out, time.Second     // children may hold the output open
		if err := process.Run(); err != nil {
			return 0, fmt.Errorf("the command of effects: %w", err)
		}
		return numberAt(out.text, path)
	}
}

// bounded keeps as much as a body may have.
type bounded struct{ text []byte }

// Write implements io.Writer.
func (b *bounded) Write(text []byte) (int, error) {
	if len(b.text)+len(text) > maxBody {
		return 0, errors.New("the output is longer than 1 MiB")
	}
	b.text = append(b.text, text...)
	return len(text), nil
}

// numberAt returns the number at a path in JSON, whose steps are names of members and indexes.
func numberAt(text []byte, path string) (int64, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var at any
	if err := decoder.Decode(&at); err != nil {
		return 0, fmt.Errorf("the text is no number and no JSON: %w", err)
	}
	for step := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '.' }) {
		switch value := at.(type) {
		case map[string]any:
			at = value[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(value) {
				return 0, fmt.Errorf("the path %q has the step %q: give an index below %d", path, step, len(value))
			}
			at = value[i]
		default:
			at = nil
		}
	}
	number, is := at.(json.Number)
	if !is {
		return 0, fmt.Errorf("no number is at the path %q: give names of members and indexes, such as data.0.count", path)
	}
	return number.Int64()
}
