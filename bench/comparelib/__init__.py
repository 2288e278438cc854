# SPDX-License-Identifier: BSD-3-Clause
"""What bench/compare is made of: implementations, the plan of runs, what their output means, targets, the report."""
