package harness

import (
	"sync"
	"time"
)

// Parallel does n pieces of work with a number of workers, each worker its own share, and
// returns when all workers have ended. A worker ends at its first error. Parallel returns
// one of the errors.
func Parallel(workers, n int, work func(worker, i int) error) error {
	var group sync.WaitGroup
	failed := make(chan error, workers)
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < n; i += workers {
				if err := work(worker, i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	return <-failed
}

// TurnsOfWorkers is how many pieces of work each worker of a concurrent arm does in a slice,
// at least.
const TurnsOfWorkers = 4

// Timed returns an arm that does each piece of work on one of the workers, and that has
// latencies. The arm's Prepare and Most are for the caller to set.
func Timed(name string, workers int, work func(i int) error) Arm {
	var took []float64
	return Arm{
		Name: name, Least: TurnsOfWorkers * workers,
		Run: func(n int) error {
			took = make([]float64, n)
			return Parallel(workers, n, func(_, i int) error {
				start := time.Now()
				err := work(i)
				took[i] = float64(time.Since(start))
				return err
			})
		},
		Took: func() []float64 { return took },
	}
}
