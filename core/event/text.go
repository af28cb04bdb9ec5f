package event

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/core/internal/cause"
	"github.com/oncekey/oncekey/fingerprint"
)

// ErrorText returns the text of Err for a log, or "" when Err is nil. Errors of a store and of the
// engine appear as texts. An error of a handler, of a Scope, of a function of core.Do, of a RecoverFunc
// or of a FindFunc appears as types, with the types of wrapped errors ("*strconv.NumError: *errors.errorString").
// Why: such texts often quote the request. The engine's own causes, such as ErrRunTooLong, appear as texts.
func (e *Event) ErrorText() string {
	switch {
	case e.Err == nil:
		return ""
	case e.Result == Refused:
		if inner := errors.Unwrap(e.Err); inner != nil { // of a codec or a Scope
			return strings.TrimSuffix(e.Err.Error(), inner.Error()) + ErrorTypes(inner)
		}
	case slices.Contains(handlersResults, e.Result) && !e.isRefused():
		return ErrorTypes(e.Err)
	}
	return e.Err.Error()
}

// isRefused reports whether the store has refused the response of a run for good.
func (e *Event) isRefused() bool {
	_, of := e.Err.(*cause.StoreError) //nolint:errorlint // a handler's error may wrap a store's
	return of
}

// handlersResults are the results with an Err of a handler or function.
var handlersResults = []Result{Completed, Failed, Unreplayable, DeleteKey, Retryable, Uncertain, RecoverError}

// ErrorTypes returns the types of err and of its wrapped errors, for a log that must
// not contain error texts. The engine's own causes, such as ErrRunTooLong, appear as
// texts. err must not be nil.
func ErrorTypes(err error) string {
	if _, constant := err.(*cause.Error); constant || err == context.Canceled || err == context.DeadlineExceeded { //nolint:errorlint // a wrapping error has a text of its own
		return err.Error()
	}
	name := fmt.Sprintf("%T", err)
	if inner := errors.Unwrap(err); inner != nil {
		return name + ": " + ErrorTypes(inner)
	}
	return name
}

// maxShownPath bounds what a client's path adds to a log. net/http allows a megabyte.
const maxShownPath = 200

// shownPath replaces each segment that could be a value by a star. Of a long path it returns
// the first segments.
func shownPath(path string) string {
	if len(path) > maxShownPath {
		return shownPath(path[:strings.LastIndexByte(path[:maxShownPath], '/')+1]) + "..."
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if segment != "" && !fingerprint.LooksLikeName(segment) {
			segments[i] = "*"
		}
	}
	return strings.Join(segments, "/")
}

// printable escapes characters that could forge a line in a log. Quotes stay as they
// are, because a slog.Handler escapes them.
func printable(s string) string {
	if !strings.ContainsFunc(s, isEscaped) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !isEscaped(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// isEscaped reports whether a log shows the character escaped: all but printable ASCII.
func isEscaped(r rune) bool { return r < ' ' || r > '~' }
