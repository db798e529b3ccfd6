from ..kit.caption_rule import QualityRule


class Uniform(QualityRule):
    """Images are of one colour.

    What: all pixels are alike. Seen at ``--level full`` only.

    Why it hurts: there is nothing to learn but a wrong caption for white or black. Each such image adds noise to every
    batch it is in.

    In the wild: placeholders, broken renderings, pictures with all their content in the transparency.

    Cure: leave them out before packing: ``if len(set(image.resize((8, 8)).getdata())) == 1: continue``
    """

    code = "I208"
    tallies = ("image.uniform",)
    predicate = "are of one colour"
    predicate_one = "is of one colour"
    consequence = "there is nothing to see"
