package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oncekey/oncekey/examples/bench/internal/load"
	"github.com/oncekey/oncekey/examples/bench/internal/servers"
)

const (
	// watchEvery is the time between two looks of a watcher at its processor.
	watchEvery = time.Millisecond
	// mostLate is the delay of a look above which the machine has stalled.
	mostLate = 200 * time.Microsecond
	// mostOthers is the part of one processor that other programs may use.
	mostOthers = 0.02
)

// watcher notices when the machine itself stalls, or when another program runs. It knows
// nothing of the services, so that its rule is the same for each of them.
//
// On each processor, a thread with a real-time priority asks to be woken every millisecond.
// No service can delay it, but a hypervisor that stops the processor does. Other programs are
// in the system's own books.
type watcher struct {
	ours  map[string]bool // identifiers of the benchmark's processes
	since time.Time
	used  time.Duration // by other programs
	begun int

	ended   chan struct{}
	threads sync.WaitGroup
	late    atomic.Int64 // the longest delay since the last call of disturbed
}

// watch starts a watcher for the processors of this process and of these children, until
// stop.
func watch(on []int, children []int) *watcher {
	w := &watcher{ours: map[string]bool{strconv.Itoa(os.Getpid()): true}, ended: make(chan struct{})}
	for _, child := range children {
		w.ours[strconv.Itoa(child)] = true
	}
	for _, processor := range on {
		w.threads.Go(func() { w.look(processor) })
	}
	return w
}

func (w *watcher) stop() {
	close(w.ended)
	w.threads.Wait()
}

// look looks after one processor. Without the right to a real-time priority it does nothing.
func (w *watcher) look(processor int) {
	var on unix.CPUSet
	on.Set(processor)
	back, err := load.Pin(&on)
	if err != nil {
		return
	}
	// The thread must live on: a server that was started on it dies with it (see servers).
	defer back()
	if unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0) != nil {
		return
	}
	defer func() {
		_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}, 0)
	}()
	for due := time.Now(); ; {
		select {
		case <-w.ended:
			return
		default:
		}
		due = due.Add(watchEvery)
		load.Sleep(time.Until(due))
		late := time.Since(due)
		if late > 0 {
			due = due.Add(late)
		}
		if int64(late) > w.late.Load() {
			w.late.Store(int64(late)) // two at once are both too long, or one is lost that does not matter
		}
	}
}

// disturbed reports whether, since its last call, the machine has stalled, or other programs
// have used a processor. A process that has begun counts too: it may have ended, and then its
// time is not in the books.
func (w *watcher) disturbed() bool {
	late := time.Duration(w.late.Swap(0))
	now, used, begun := time.Now(), w.othersTime(), processesBegun()
	share := float64(used-w.used) / float64(now.Sub(w.since))
	quiet := late <= mostLate && share <= mostOthers && begun == w.begun
	w.since, w.used, w.begun = now, used, begun
	return !quiet
}

// othersTime is the processor time of other programs' threads.
func (w *watcher) othersTime() (total time.Duration) {
	processes, _ := filepath.Glob("/proc/[0-9]*") // fails for a malformed pattern only
	for _, process := range processes {
		if pid := filepath.Base(process); !w.ours[pid] {
			total += servers.Running(pid)
		}
	}
	return total
}

// processesBegun is how many processes and threads the system has begun.
func processesBegun() int {
	text, _ := os.ReadFile("/proc/stat")
	_, after, _ := strings.Cut(string(text), "\nprocesses ")
	number, _, _ := strings.Cut(after, "\n")
	n, _ := strconv.Atoi(number) // the system writes only numbers
	return n
}
