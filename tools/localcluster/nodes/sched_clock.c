
/* Added for these nodes: nanoseconds. The usual clock counts ticks of 10 ms, and so do all CPU counters of cgroups. */
unsigned long long sched_clock(void);
notrace unsigned long long sched_clock(void)
{
	static unsigned long long start;

	if (!start)
		start = os_nsecs();
	return os_nsecs() - start;
}
