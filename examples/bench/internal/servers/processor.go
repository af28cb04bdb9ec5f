package servers

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the times in /proc, which Linux does not change for programs.
const tick = 10 * time.Millisecond

// ProcessorTime returns the processor time that the server and its processes have used
// since they started, those that have ended included. It is zero where the system has no
// /proc. Call it twice, and use the difference.
func (p *process) ProcessorTime() time.Duration {
	server := p.command.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", server, server)) // without /proc there are none
	total := processorTime(strconv.Itoa(server), true)
	for _, child := range strings.Fields(string(children)) {
		total += processorTime(child, false)
	}
	return total
}

// processorTime is the user and system time of a process, and of its ended children. A
// process that has ended in between has none.
func processorTime(pid string, withEnded bool) (total time.Duration) {
	stat, _ := os.ReadFile("/proc/" + pid + "/stat")
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // the name before may have spaces
	const user, ended = 11, 13                                                          // counted from the state, the third field
	last := ended
	if withEnded {
		last += 2
	}
	if len(fields) < last {
		return 0
	}
	for _, field := range fields[user:last] {
		ticks, _ := strconv.Atoi(field) // the system writes only numbers
		total += time.Duration(ticks) * tick
	}
	return total
}
