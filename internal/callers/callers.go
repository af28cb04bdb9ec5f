// Package callers reads the call stack. No function of this module is found by its name.
package callers

import (
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Place returns the file and the line that called the caller of Place, such as
// "payments/main.go:42".
func Place() string {
	_, file, line, known := runtime.Caller(2)
	if !known {
		return "an unknown place"
	}
	return filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file) + ":" + strconv.Itoa(line)
}

// Entry returns the entry of a function, such as (*T).Method. It identifies the function
// in the stack, unless the compiler inlines it: a function with a defer is not inlined.
func Entry(function any) uintptr { return reflect.ValueOf(function).Pointer() }

// Panic reports whether the caller is a deferred function that runs because of a panic, or
// is called by one. The search of the stack ends at the function with the entry outermost,
// and after 64 callers.
func Panic(outermost uintptr) bool {
	entry := gopanic()
	return search(outermost, func(frame *runtime.Frame) bool { return frame.Entry == entry })
}

// gopanic returns the entry of the function that runs deferred functions during a panic.
// The runtime does not export the function: it is the caller of one that is deferred.
var gopanic = sync.OnceValue(func() (entry uintptr) {
	defer func() { _ = recover() }()
	defer func() {
		var caller [1]uintptr
		runtime.Callers(2, caller[:])
		frame, _ := runtime.CallersFrames(caller[:]).Next()
		entry = frame.Entry
	}()
	panic("oncekey: looks for the function that handles panics")
})

// ReverseProxy reports whether an httputil.ReverseProxy calls the caller. The proxy flushes
// on a goroutine of its own too, so that its exported functions are not always in the stack.
// The search ends as in Panic.
func ReverseProxy(outermost uintptr) bool {
	return search(outermost, func(frame *runtime.Frame) bool { return strings.HasPrefix(frame.Function, "net/http/httputil.(*") })
}

// Within reports whether one of the functions with these entries calls the caller. The search
// ends as in Panic.
func Within(outermost uintptr, functions ...uintptr) bool {
	return search(outermost, func(frame *runtime.Frame) bool { return slices.Contains(functions, frame.Entry) })
}

func search(outermost uintptr, found func(*runtime.Frame) bool) bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if found(&frame) {
			return true
		}
		if !more || frame.Entry == outermost {
			return false
		}
	}
}
