package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ProcessorTime returns the processor time that the server and its processes have used
// since they started, those that have ended included. It is zero on a system without Linux's
// /proc. Call it twice, and use the difference.
func (p *process) ProcessorTime() time.Duration {
	server := p.command.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", server, server)) // without /proc there are none
	total := Running(strconv.Itoa(server))
	for child := range strings.FieldsSeq(string(children)) {
		total += Running(child)
	}
	return total + ended(strconv.Itoa(server)) // last: a child that ends meanwhile is not lost
}

// Running returns the processor time of the threads of a process, named by its number or
// "self". The times in its stat would be in steps of 10 ms, as long as a slice of the
// benchmark uses. A thread that has ended in between has none, so compare two times only while
// the clients keep their connections.
func Running(pid string) (total time.Duration) {
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat") // fails for a malformed pattern only
	for _, thread := range threads {
		text, _ := os.ReadFile(thread) //nolint:gosec // of /proc
		first, _, _ := strings.Cut(string(text), " ")
		nanoseconds, _ := strconv.ParseInt(first, 10, 64) // the system writes only numbers
		total += time.Duration(nanoseconds)
	}
	return total
}

// ended is the user and system time of a process's children that have ended.
func ended(pid string) (total time.Duration) {
	const children, tick = 13, 10 * time.Millisecond                                    // their place, counted from the third field, and the unit of stat
	text, _ := os.ReadFile("/proc/" + pid + "/stat")                                    //nolint:gosec // of a process of this program
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
