package handlertest

import (
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
)

const (
	kit      = "github.com/oncekey/oncekey/core/handlertest."
	engine   = "github.com/oncekey/oncekey/core.(*Engine)."
	guards   = "github.com/oncekey/oncekey/core."
	adapters = "github.com/oncekey/oncekey/adapters/"
)

// place returns the file and the line of the handler's call: the innermost caller outside
// of the kit and of the standard library, if possible in the module under test, and not
// in a test's wrapper of a client.
func place() string {
	found, rank := "", 0
	for frame := range frames() {
		if strings.HasPrefix(frame.Function, engine) {
			break // the callers of the engine are not the handler's
		}
		if better := rankOf(frame); better > rank {
			found, rank = fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line), better
		}
	}
	return found
}

// rankOf tells how well a frame names the call. Zero: it must not.
func rankOf(frame runtime.Frame) int {
	switch {
	case strings.HasPrefix(frame.Function, kit), isStandard(frame):
		return 0
	case strings.Contains(frame.File, "@v"), // a module of the cache
		strings.HasPrefix(frame.Function, guards), strings.HasPrefix(frame.Function, adapters):
		return 1
	case strings.HasSuffix(frame.File, "_test.go"):
		return 2
	default:
		return 3
	}
}

// frames yields the callers of the kit's function, innermost first.
func frames() func(yield func(runtime.Frame) bool) {
	var callers [128]uintptr
	stack := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	return func(yield func(runtime.Frame) bool) {
		for {
			frame, more := stack.Next()
			if !yield(frame) || !more {
				return
			}
		}
	}
}

// standard is the folder of the standard library's sources, or "" in a build with
// -trimpath.
var standard = func() string {
	const name = "net/http/client.go"
	file, _ := runtime.FuncForPC(reflect.ValueOf(http.Get).Pointer()).FileLine(0)
	folder, _ := strings.CutSuffix(filepath.ToSlash(file), name)
	return folder
}()

func isStandard(frame runtime.Frame) bool {
	if standard != "" {
		return strings.HasPrefix(filepath.ToSlash(frame.File), standard)
	}
	first, _, _ := strings.Cut(frame.Function, "/") // a path such as net/http.Get has no dot there
	return !strings.Contains(first, ".") || !strings.Contains(frame.Function, "/") && !strings.HasPrefix(frame.Function, "main.")
}

// onHandler reports whether the caller is on the goroutine that serves a request.
func onHandler() bool {
	for frame := range frames() {
		if frame.Function == kit+"(*World).serve" {
			return true
		}
	}
	return false
}
