package servers

import (
	"fmt"
	"os"
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
	total := running(strconv.Itoa(server))
	for child := range strings.FieldsSeq(string(children)) {
		total += running(child)
	}
	return total + ended(strconv.Itoa(server)) // last: a child that ends meanwhile is not lost
}

// running is a process's own time, in nanoseconds. The times in its stat would be in steps of
// 10 ms, as long as a slice of the benchmark uses. A process that has ended in between has
// none.
func running(pid string) time.Duration {
	text, _ := os.ReadFile("/proc/" + pid + "/schedstat") //nolint:gosec // of a process of this program
	first, _, _ := strings.Cut(string(text), " ")
	nanoseconds, _ := strconv.ParseInt(first, 10, 64) // the system writes only numbers
	return time.Duration(nanoseconds)
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
