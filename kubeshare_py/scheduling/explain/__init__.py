"""Why a pod waits and what it could get: answers that change nothing."""
