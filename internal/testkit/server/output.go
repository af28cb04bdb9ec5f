package serverproc

import (
	"bytes"
	"slices"
	"sync"
)

// maximumLines bounds the lines that are kept.
const maximumLines = 20_000

// output collects a program's output line by line. The zero value is ready.
type output struct {
	mutex      sync.Mutex
	lines      []string
	unfinished []byte // the start of an incomplete line
}

func (o *output) Write(chunk []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.unfinished = append(o.unfinished, chunk...)
	for {
		line, rest, complete := bytes.Cut(o.unfinished, []byte("\n"))
		if !complete {
			return len(chunk), nil
		}
		o.lines = append(o.lines, string(bytes.TrimSuffix(line, []byte("\r"))))
		o.unfinished = rest
		if len(o.lines) > maximumLines {
			o.lines = slices.Delete(o.lines, 0, maximumLines/2)
		}
	}
}

func (o *output) snapshot() []string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	lines := slices.Clone(o.lines)
	if len(o.unfinished) > 0 {
		lines = append(lines, string(o.unfinished))
	}
	return lines
}
