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

// ErrorText returns the text of Err for a log, or "" when Err is nil. Errors of a
// store and of the engine appear with their texts. An error that a handler or a
// function of core.Do returned appears as its types and those that it wraps
// ("*strconv.NumError: *errors.errorString"), because such texts often quote the
// request. The engine's causes within it, such as ErrRunTooLong, keep their texts.
func (e *Event) ErrorText() string {
	switch {
	case e.Err == nil:
		return ""
	case e.Result == Refused:
		if inner := errors.Unwrap(e.Err); inner != nil { // of a codec
			return strings.TrimSuffix(e.Err.Error(), inner.Error()) + ErrorTypes(inner)
		}
	case slices.Contains(handlersResults, e.Result):
		return ErrorTypes(e.Err)
	}
	return e.Err.Error()
}

// handlersResults are the results whose Err came from a handler or function.
var handlersResults = []Result{Completed, Failed, Unreplayable, DeleteKey, Retryable, Uncertain}

// ErrorTypes names the types of err and of the errors that it wraps, for a log that
// must not contain their texts. The engine's own causes, such as ErrRunTooLong, keep
// their texts. err must not be nil.
func ErrorTypes(err error) string {
	if _, constant := err.(*cause.Error); constant || err == context.Canceled || err == context.DeadlineExceeded { //nolint:errorlint // a wrapped one has a text of its own
		return err.Error()
	}
	name := fmt.Sprintf("%T", err)
	if inner := errors.Unwrap(err); inner != nil {
		return name + ": " + ErrorTypes(inner)
	}
	return name
}

// shownPath puts a star for each segment that could be a value.
func shownPath(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if segment != "" && !fingerprint.LooksLikeName(segment) {
			segments[i] = "*"
		}
	}
	return strings.Join(segments, "/")
}

// printable escapes what could forge a line in a log.
func printable(s string) string {
	quoted := strconv.QuoteToASCII(s)
	return quoted[1 : len(quoted)-1]
}
