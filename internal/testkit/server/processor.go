package serverproc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ProcessorTime returns the processor time that the program and its children have used since they started, those that have
// ended included. It is zero on a system without Linux's /proc. Call it twice, and use the difference.
func (p *Process) ProcessorTime() time.Duration {
	program := strconv.Itoa(p.Pid())
	total := timeOf(program)
	threads, _ := filepath.Glob("/proc/" + program + "/task/*/children") // fails for a malformed pattern only
	for _, thread := range threads {
		children, _ := os.ReadFile(thread)
		for child := range strings.FieldsSeq(string(children)) {
			total += timeOf(child)
		}
	}
	return total + timeOfEnded(program) // last: a child that ends meanwhile is not lost
}

// timeOf returns the processor time of the threads of a process. The times in its stat would be in steps of 10 ms, which is
// too coarse for a short measurement. A thread that has ended in between has none.
func timeOf(pid string) (total time.Duration) {
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat") // fails for a malformed pattern only
	for _, thread := range threads {
		text, _ := os.ReadFile(thread)
		var nanoseconds int64
		_, _ = fmt.Sscan(string(text), &nanoseconds) // zero for a thread that has ended
		total += time.Duration(nanoseconds)
	}
	return total
}

// timeOfEnded is the user and system time of a process's children that have ended.
func timeOfEnded(pid string) (total time.Duration) {
	const children, tick = 13, 10 * time.Millisecond // their place, counted from the third field, and the unit of stat
	text, _ := os.ReadFile("/proc/" + pid + "/stat")
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // the name before may have spaces
	if len(fields) < children+2 {
		return 0
	}
	for _, field := range fields[children : children+2] {
		ticks, _ := strconv.Atoi(field)
		total += time.Duration(ticks) * tick
	}
	return total
}
