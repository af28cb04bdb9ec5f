package explore

// sabotage breaks the simulation, so that a test sees each rule fail.
type sabotage uint8

const (
	soundWorld        sabotage = iota
	grantsAlways               // the store gives a lease to each caller
	altersBody                 // the store changes the returned responses
	altersStatus               // the store changes the statuses that it stores
	altersRequest              // the store returns another fingerprint
	forgetsRequest             // the store returns the caller's own fingerprint
	neverFinishes              // the store returns finished records as if they were in progress
	leaseEndsEarly             // the store ends a lease at once
	slowReply                  // a settlement takes ten minutes, even after its context has ended
	noReply                    // a settlement never returns
	losesDecisions             // the observer drops all decisions
	losesSettlement            // the observer drops all settlements
	neverLooks                 // careful handlers do not check their context
	losesResults               // the link confirms settlements, and does not send them to the store
	refusesQuietly             // claims fail without a fault in the plan
	closesLate                 // Shutdown takes two minutes longer
	endsRunsEarly              // engines have a third of the policy's MaxRun
	escapes                    // callbacks' panics reach the server
	hidesPanics                // the observer drops the reports of panics
	breaksProblems             // clients get the half response of a problem.Writer that panicked
	opensAlways                // after a refusal the handler still runs, without protection
	hidesRollback              // clients get an empty problem
	keepsLeases                // the store extends a lease that it should end
	losesAbandoned             // the store deletes the record of a lease that it should end
	keepsNoTombstones          // the store forgets a key at its TTL
	expiresAtOnce              // the store returns finished records as expired ones
	losesSteps                 // the store forgets the steps of a run
	losesStatus                // the tombstone of a finished record has no status
	keepsRefused               // the store keeps a response that it says to refuse for good
	sendsRefusedAgain          // the link sends a refused response again
	rerunsByHand               // the store grants keys that were settled without a response
	admitsAll                  // the store counts no keys of a scope
)
